"""Who waits in line is woken for what it waits for, one at a time, and nobody else is."""

from __future__ import annotations

import asyncio
import contextlib

from interlock.kernel.wakes import QueuePlace, Wakes
from interlock.rooms.policy.matching import topic_test


def place(wakes: Wakes, *topics: str, group: str = "claims:acme") -> QueuePlace:
    exact = tuple(topic for topic in topics if "*" not in topic)
    patterns = {topic: topic_test(topic) for topic in topics if "*" in topic}
    return wakes.lines.line_up(group, exact, patterns)


async def test_a_topic_wakes_the_one_that_has_waited_longest_for_it() -> None:
    wakes = Wakes()
    with place(wakes, "mail") as first, place(wakes, "mail") as second, place(wakes, "pay") as other:
        wakes.publish(["claims:acme:mail"])
        assert [each.is_called for each in (first, second, other)] == [True, False, False]
        wakes.publish(["claims:acme:mail"])
        assert [each.is_called for each in (first, second, other)] == [True, True, False]


async def test_a_pattern_is_woken_for_topics_that_match_it_and_for_no_others() -> None:
    wakes = Wakes()
    with place(wakes, "finance.*") as narrow, place(wakes, "ops.**") as other:
        wakes.publish(["claims:acme:finance.pay.large", "claims:acme:ops2", "claims:other:finance.pay"])
        assert not narrow.is_called
        assert not other.is_called
        wakes.publish(["claims:acme:finance.pay"])
        assert narrow.is_called
        assert not other.is_called


async def test_whoever_found_work_wakes_two_more() -> None:
    wakes = Wakes()
    with (
        place(wakes, "mail") as a,
        place(wakes, "mail") as b,
        place(wakes, "*") as c,
        place(wakes, "mail") as d,
    ):
        wakes.publish(["claims:acme:mail"])
        assert await a.wait(0)
        a.pass_on(2)
        assert [each.is_called for each in (b, c, d)] == [True, True, False]


async def test_whoever_leaves_before_it_looked_passes_the_call_on() -> None:
    wakes = Wakes()
    with place(wakes, "mail") as leaving, contextlib.ExitStack() as stays:
        second = stays.enter_context(place(wakes, "mail"))
        wakes.publish(["claims:acme:mail"])
        assert [leaving.is_called, second.is_called] == [True, False]
        staying = stays.pop_all()
    assert second.is_called
    staying.close()


async def test_all_of_a_long_line_look_by_themselves_as_often_as_a_short_one() -> None:
    wakes = Wakes()
    places = [place(wakes, "mail") for _ in range(3000)]
    for each in places:
        each.__enter__()
    assert places[0].look_seconds(1.0) == 3000 / 8
    with place(wakes, "pay") as alone:
        assert alone.look_seconds(1.0) == 1.0
    for each in places:
        each.__exit__()
    assert not wakes.lines.call("claims:acme:mail")


async def test_lost_hints_wake_everybody() -> None:
    wakes = Wakes()
    with place(wakes, "mail") as one, place(wakes, "ops.*") as other:
        wakes.publish_all()
        assert await asyncio.gather(one.wait(0), other.wait(0)) == [True, True]

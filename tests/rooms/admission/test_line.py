"""The line: arrival order, nobody overtakes, and the dead hold nobody up."""

from __future__ import annotations

import asyncio

from interlock.rooms.admission.gates import LINE_MAX, TICKET_SECONDS
from interlock.rooms.admission.model import GATES, place_topic
from tests.rooms.admission.admission_client import Hall, word


async def test_slots_go_to_whoever_came_first(hall: Hall) -> None:
    await hall.limit(1)
    run = await hall.start()
    for ticket in "abc":
        assert word(await hall.queue(ticket)) == "full"
    await hall.end(run)
    assert [word(await hall.queue(ticket)) for ticket in "cba"] == ["full", "full", "in"]
    assert await hall.line() == ["b", "c"]


async def test_newcomers_do_not_overtake_those_who_wait(hall: Hall) -> None:
    await hall.limit(1)
    run = await hall.start()
    await hall.queue("a")
    await hall.end(run)
    newcomer = await hall.ask()
    assert (newcomer.status, newcomer.document["active"], newcomer.document["waiting"]) == (429, 0, 1)
    assert word(await hall.queue("late")) == "full"
    assert word(await hall.queue("a")) == "in"


async def test_a_workflow_without_room_does_not_hold_up_the_others(hall: Hall) -> None:
    await hall.limit(2)
    await hall.limit(1, "narrow")
    await hall.start("narrow")
    for ticket in "abc":
        assert word(await hall.queue(ticket, "narrow")) == "full"
    assert word(await hall.queue("d", "wide")) == "in"
    assert word(await hall.queue("e", "wide")) == "full"


async def test_those_ahead_in_the_same_workflow_go_first(hall: Hall) -> None:
    await hall.limit(10)
    await hall.limit(1, "narrow")
    run = await hall.start("narrow")
    await hall.queue("a", "narrow")
    await hall.queue("b", "narrow")
    await hall.end(run)
    assert [word(await hall.queue(ticket, "narrow")) for ticket in "ba"] == ["full", "in"]


async def test_whoever_stops_coming_back_loses_the_place(hall: Hall) -> None:
    await hall.limit(1)
    run = await hall.start()
    await hall.queue("dead")
    hall.stage.clock.advance(TICKET_SECONDS / 2)
    await hall.queue("alive")
    await hall.end(run)
    assert word(await hall.queue("alive")) == "full"
    hall.stage.clock.advance(TICKET_SECONDS / 2)
    assert word(await hall.queue("alive")) == "in"
    assert await hall.line() == []


async def test_coming_back_keeps_the_place(hall: Hall) -> None:
    await hall.limit(0)
    for _ in range(5):
        await hall.queue("a")
        await hall.queue("b")
        hall.stage.clock.advance(TICKET_SECONDS - 1)
    assert await hall.line() == ["a", "b"]


async def test_a_place_kept_a_moment_ago_is_not_written_again(hall: Hall) -> None:
    await hall.limit(0)
    await hall.queue("a", run_id="one")
    before = await hall.gate()
    hall.stage.clock.advance(1)
    await hall.queue("a", run_id="one")
    assert (await hall.gate()).version == before.version
    hall.stage.clock.advance(1)
    await hall.queue("a", run_id="one")
    assert (await hall.gate()).version == before.version + 1


async def test_a_repeat_shares_the_place_and_it_stays_until_the_last_has_left(hall: Hall) -> None:
    await hall.limit(1)
    run = await hall.start()
    await hall.queue("a", run_id="first")
    await hall.queue("b")
    await hall.queue("a", run_id="repeat")
    assert await hall.line() == ["a", "b"]
    await hall.leave("a", "first")
    assert await hall.line() == ["a", "b"]
    await hall.end(run)
    assert word(await hall.queue("b")) == "full"
    assert word(await hall.queue("a", run_id="repeat")) == "in"


async def test_whoever_leaves_makes_room_for_the_next_at_once(hall: Hall) -> None:
    await hall.limit(1)
    run = await hall.start()
    await hall.queue("a", run_id="gone")
    await hall.queue("b")
    await hall.end(run)
    with hall.stage.service.kernel.wakes.subscribe(place_topic("default", "b")) as woken:
        await hall.leave("a", "gone")
        assert await woken.wait(5)
    assert word(await hall.queue("b")) == "in"


async def test_one_place_holds_a_bounded_number_of_repeats(hall: Hall) -> None:
    await hall.limit(0)
    for n in range(50):
        await hall.queue("a", run_id=f"repeat-{n}")
    (ticket,) = (await hall.gate()).line
    assert [waiter.id for waiter in ticket.waiters] == [f"repeat-{n}" for n in (46, 47, 48, 49)]


async def test_the_line_and_its_record_are_bounded(hall: Hall) -> None:
    await hall.limit(0)
    await asyncio.gather(*(hall.queue(f"tkt_{n:032}", "w" * 40) for n in range(LINE_MAX + 100)))
    gate = await hall.gate()
    assert len(gate.line) == LINE_MAX
    assert len(GATES.encode(gate)) < 100_000
    full = await hall.ask(wait_seconds=300)
    assert (full.status, full.document["waiting"]) == (429, LINE_MAX)


async def test_only_those_who_may_be_next_are_woken(hall: Hall) -> None:
    await hall.limit(2)
    runs = [await hall.start(), await hall.start()]
    wakes = hall.stage.service.kernel.wakes
    for n in range(300):
        await hall.queue(f"t{n}")
    with (
        wakes.subscribe(place_topic("default", "t0")) as first,
        wakes.subscribe(place_topic("default", "t1")) as second,
        wakes.subscribe(*(place_topic("default", f"t{n}") for n in range(2, 300))) as others,
    ):
        await hall.end(runs[0])
        assert await first.wait(5)
        assert not await second.wait(0.01)
        await hall.end(runs[1])
        assert await second.wait(5)
        assert not await others.wait(0.01)


async def test_a_waiter_gets_the_slot_that_comes_free(hall: Hall) -> None:
    await hall.limit(1)
    run = await hall.start()
    waiting = asyncio.create_task(hall.ask(wait_seconds=60))
    while not await hall.line():
        await asyncio.sleep(0.01)
    await hall.end(run)
    assert (await waiting).status == 201
    assert await hall.counts() == (1, 1)


async def test_whoever_waited_in_vain_gets_429_and_leaves_the_line(hall: Hall) -> None:
    await hall.limit(0)
    seen = await hall.ask(wait_seconds=0.2)
    assert (seen.status, seen.word) == (429, "max_concurrent_runs")
    assert await hall.line() == []


async def test_a_repeat_that_still_waits_is_answered_with_the_same_run(hall: Hall) -> None:
    await hall.limit(1)
    run = await hall.start()
    waiting = [asyncio.create_task(hall.ask(key="k", wait_seconds=60)) for _ in range(3)]
    while len((await hall.gate()).line) < 1:
        await asyncio.sleep(0.01)
    await hall.end(run)
    seen = await asyncio.gather(*waiting)
    assert len({each.body for each in seen}) == 1
    assert await hall.counts() == (1, 1)


async def test_a_stopping_server_answers_those_who_wait_and_leaves_them_their_place(hall: Hall) -> None:
    await hall.limit(0)
    waiting = asyncio.create_task(hall.ask(key="k", wait_seconds=300))
    while not await hall.line():
        await asyncio.sleep(0.01)
    hall.stage.service.stop_waiting()
    assert (await waiting).status == 429
    assert len(await hall.line()) == 1

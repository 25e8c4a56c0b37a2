"""The line: arrival order, nobody overtakes, and the dead hold nobody up."""

from __future__ import annotations

import asyncio

from interlock.rooms.admission.model import GATES, TENANT_SCOPE, Gate, place_topic
from interlock.rooms.admission.slots import LINE_MAX, TICKET_SECONDS, retry_after
from tests.rooms.admission.admission_client import AdmissionClient, word


async def test_slots_go_to_whoever_came_first(client: AdmissionClient) -> None:
    await client.limit(1)
    run = await client.start()
    for ticket in "abc":
        assert word(await client.queue(ticket)) == "full"
    await client.end(run)
    assert [word(await client.queue(ticket)) for ticket in "cba"] == ["full", "full", "in"]
    assert await client.line() == ["b", "c"]


async def test_newcomers_do_not_overtake_those_who_wait(client: AdmissionClient) -> None:
    await client.limit(1)
    run = await client.start()
    await client.queue("a")
    await client.end(run)
    newcomer = await client.ask()
    assert (newcomer.status, newcomer.document["active"], newcomer.document["waiting"]) == (429, 0, 1)
    assert word(await client.queue("late")) == "full"
    assert word(await client.queue("a")) == "in"


async def test_a_workflow_without_room_does_not_hold_up_the_others(client: AdmissionClient) -> None:
    await client.limit(2)
    await client.limit(1, "narrow")
    await client.start("narrow")
    for ticket in "abc":
        assert word(await client.queue(ticket, "narrow")) == "full"
    assert word(await client.queue("d", "wide")) == "in"
    assert word(await client.queue("e", "wide")) == "full"


async def test_those_ahead_in_the_same_workflow_go_first(client: AdmissionClient) -> None:
    await client.limit(10)
    await client.limit(1, "narrow")
    run = await client.start("narrow")
    await client.queue("a", "narrow")
    await client.queue("b", "narrow")
    await client.end(run)
    assert [word(await client.queue(ticket, "narrow")) for ticket in "ba"] == ["full", "in"]


async def test_whoever_stops_coming_back_loses_the_place(client: AdmissionClient) -> None:
    await client.limit(1)
    run = await client.start()
    await client.queue("dead")
    client.api.clock.advance(TICKET_SECONDS / 2)
    await client.queue("alive")
    await client.end(run)
    assert word(await client.queue("alive")) == "full"
    client.api.clock.advance(TICKET_SECONDS / 2)
    assert word(await client.queue("alive")) == "in"
    assert await client.line() == []


async def test_coming_back_keeps_the_place(client: AdmissionClient) -> None:
    await client.limit(0)
    for _ in range(5):
        await client.queue("a")
        await client.queue("b")
        client.api.clock.advance(TICKET_SECONDS - 1)
    assert await client.line() == ["a", "b"]


async def test_a_place_kept_a_moment_ago_is_not_written_again(client: AdmissionClient) -> None:
    await client.limit(0)
    await client.queue("a", run_id="one")
    before = await client.gate()
    client.api.clock.advance(1)
    await client.queue("a", run_id="one")
    assert (await client.gate()).version == before.version
    client.api.clock.advance(1)
    await client.queue("a", run_id="one")
    assert (await client.gate()).version == before.version + 1


async def test_a_repeat_shares_the_place_and_it_stays_until_the_last_has_left(
    client: AdmissionClient,
) -> None:
    await client.limit(1)
    run = await client.start()
    await client.queue("a", run_id="first")
    await client.queue("b")
    await client.queue("a", run_id="repeat")
    assert await client.line() == ["a", "b"]
    await client.leave("a", "first")
    assert await client.line() == ["a", "b"]
    await client.end(run)
    assert word(await client.queue("b")) == "full"
    assert word(await client.queue("a", run_id="repeat")) == "in"


async def test_whoever_leaves_makes_room_for_the_next_at_once(client: AdmissionClient) -> None:
    await client.limit(1)
    run = await client.start()
    await client.queue("a", run_id="gone")
    await client.queue("b")
    await client.end(run)
    with client.api.service.kernel.wakes.subscribe(place_topic("default", "b")) as woken:
        await client.leave("a", "gone")
        assert await woken.wait(5)
    assert word(await client.queue("b")) == "in"


async def test_one_place_holds_a_bounded_number_of_repeats(client: AdmissionClient) -> None:
    await client.limit(0)
    for n in range(50):
        await client.queue("a", run_id=f"repeat-{n}")
    (ticket,) = (await client.gate()).line
    assert [waiter.id for waiter in ticket.waiters] == [f"repeat-{n}" for n in (46, 47, 48, 49)]


async def test_the_line_and_its_record_are_bounded(client: AdmissionClient) -> None:
    await client.limit(0)
    await asyncio.gather(*(client.queue(f"tkt_{n:032}", "w" * 40) for n in range(LINE_MAX + 100)))
    gate = await client.gate()
    assert len(gate.line) == LINE_MAX
    assert len(GATES.encode(gate)) < 100_000
    full = await client.ask(wait_seconds=300)
    assert (full.status, full.document["waiting"]) == (429, LINE_MAX)


async def test_only_those_who_may_be_next_are_woken(client: AdmissionClient) -> None:
    await client.limit(2)
    runs = [await client.start(), await client.start()]
    wakes = client.api.service.kernel.wakes
    for n in range(300):
        await client.queue(f"t{n}")
    with (
        wakes.subscribe(place_topic("default", "t0")) as first,
        wakes.subscribe(place_topic("default", "t1")) as second,
        wakes.subscribe(*(place_topic("default", f"t{n}") for n in range(2, 300))) as others,
    ):
        await client.end(runs[0])
        assert await first.wait(5)
        assert not await second.wait(0.01)
        await client.end(runs[1])
        assert await second.wait(5)
        assert not await others.wait(0.01)


async def test_a_waiter_gets_the_slot_that_comes_free(client: AdmissionClient) -> None:
    await client.limit(1)
    run = await client.start()
    waiting = asyncio.create_task(client.ask(wait_seconds=60))
    while not await client.line():
        await asyncio.sleep(0.01)
    await client.end(run)
    assert (await waiting).status == 201
    assert await client.counts() == (1, 1)


async def test_whoever_waited_in_vain_gets_429_and_leaves_the_line(client: AdmissionClient) -> None:
    await client.limit(0)
    seen = await client.ask(wait_seconds=0.2)
    assert (seen.status, seen.word) == (429, "max_concurrent_runs")
    assert await client.line() == []


async def test_a_repeat_that_still_waits_is_answered_with_the_same_run(client: AdmissionClient) -> None:
    await client.limit(1)
    run = await client.start()
    waiting = [asyncio.create_task(client.ask(key="k", wait_seconds=60)) for _ in range(3)]
    while len((await client.gate()).line) < 1:
        await asyncio.sleep(0.01)
    await client.end(run)
    seen = await asyncio.gather(*waiting)
    assert len({each.body for each in seen}) == 1
    assert await client.counts() == (1, 1)


async def test_a_stopping_server_answers_those_who_wait_and_leaves_them_their_place(
    client: AdmissionClient,
) -> None:
    await client.limit(0)
    waiting = asyncio.create_task(client.ask(key="k", wait_seconds=300))
    while not await client.line():
        await asyncio.sleep(0.01)
    client.api.service.stop_waiting()
    assert (await waiting).status == 429
    assert len(await client.line()) == 1


def gate(hold_seconds: float, limit: int) -> Gate:
    return Gate(tenant="t", id=TENANT_SCOPE, limit=limit, hold_seconds=hold_seconds)


def test_longer_holds_and_more_ahead_mean_later_and_a_higher_limit_sooner() -> None:
    base = retry_after(gate(8, 4), 0, "same")
    assert retry_after(gate(16, 4), 0, "same") == 2 * base
    assert retry_after(gate(8, 4), 3, "same") == 4 * base
    assert retry_after(gate(8, 8), 0, "same") == base / 2


def test_callers_are_spread_over_half_as_long_again() -> None:
    waits = [retry_after(gate(8, 4), 0, f"caller-{n}") for n in range(1000)]
    assert 2 <= min(waits) < 2.05
    assert 2.95 < max(waits) <= 3
    thirds = [sum(2 + n / 3 <= wait < 2 + (n + 1) / 3 for wait in waits) for n in range(3)]
    assert min(thirds) > 250


def test_a_wait_is_bounded_on_both_sides() -> None:
    assert 0.2 <= retry_after(gate(0.001, 100), 0, "x") <= 0.3
    assert 60 <= retry_after(gate(3600, 1), 500, "x") <= 90


async def test_the_hold_time_follows_what_runs_really_take(client: AdmissionClient) -> None:
    await client.limit(1)
    for _ in range(20):
        run = await client.start(ttl_seconds=600)
        client.api.clock.advance(40)
        await client.end(run)
    assert round((await client.gate()).hold_seconds) == 40
    await client.start(ttl_seconds=600)
    full = await client.ask()
    assert 40_000 <= full.document["retry_after_ms"] <= 60_000
    assert int(full.headers["retry-after"]) * 1000 >= full.document["retry_after_ms"]

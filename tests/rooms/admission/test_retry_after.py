"""When to come back: from what was observed, and not all at once."""

from __future__ import annotations

from interlock.rooms.admission.model import TENANT_SCOPE, Gate
from interlock.rooms.admission.slots import retry_after
from tests.rooms.admission.admission_client import AdmissionClient


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

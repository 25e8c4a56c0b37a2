"""PostgreSQL behind a real pgbouncer: in session mode it serves as it is shipped, in other modes it is refused."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interlock.kernel.kernel import KernelLimits
from interlock.kernel.refusal import LockBusy, StoreUnavailable
from interlock.kernel.storage import StoreDown
from tests.harness.load import fire, post, tally
from tests.harness.pgbouncer import Pgbouncer
from tests.harness.server import InterlockServer, clean_env
from tests.harness.store_places import Heard, PostgresPlace, serving
from tests.kernel.counter_room import Raise, counter_topic
from tests.store.postgres.lock_holder import SHORT, holding

CLEAR = r"pooler .* pool_mode = session .* without the pooler"
HANG_SECONDS = 60
ASK = "version: v1\nrules: [{id: pay, when: {topic: pay}, decision: require_human}]\n"


@pytest.fixture
def pooler(postgres_url: str) -> Iterator[Callable[[str], Pgbouncer]]:
    """Starts poolers before an empty database, `pooler("session")`."""
    started: list[Pgbouncer] = []

    def start(mode: str) -> Pgbouncer:
        started.append(Pgbouncer(postgres_url, mode=mode))
        return started[-1].start()

    yield start
    for each in started:
        each.close()


@pytest.fixture
def pooled(pooler: Callable[[str], Pgbouncer]) -> PostgresPlace:
    """An empty database behind a pooler in session mode."""
    return PostgresPlace(pooler("session").url)


async def test_batches_and_reads_go_through_a_pooler_in_session_mode(pooled: PostgresPlace) -> None:
    async with serving(pooled.store(lanes=2)) as server:
        outcomes = await server.outcomes(*(Raise(name=f"c{n % 7}") for n in range(100)))
        assert sum(outcome.count == 1 for outcome in outcomes) == 7
        assert await server.counts(*(f"c{n}" for n in range(7))) == [15, 15, 14, 14, 14, 14, 14]


async def test_the_stores_settings_are_in_force_behind_a_pooler(pooled: PostgresPlace) -> None:
    store = pooled.store()
    async with serving(store), store._connections.writer() as writer:
        names = ("lock_timeout", "plan_cache_mode", "enable_seqscan", "application_name")
        in_force = [await writer.session.fetchval(f"SHOW {name}") for name in names]
        assert in_force == ["50ms", "force_generic_plan", "off", "interlock"]


@pytest.mark.parametrize("locks_seconds", [0.5, 0.02])
async def test_a_held_row_is_waited_for_and_passed_over_behind_a_pooler(
    pooled: PostgresPlace,
    postgres_place: PostgresPlace,
    monkeypatch: pytest.MonkeyPatch,
    locks_seconds: float,
) -> None:
    """By the server's own time limit for one lock, and by ours for all of them, which asks it to cancel."""
    monkeypatch.setattr("interlock.store.postgres.batch._LOCKS_SECONDS", locks_seconds)
    async with serving(pooled.store(), SHORT) as server:
        await server.kernel.run(Raise(name="held"))
        async with holding(postgres_place, "SELECT 1 FROM principals WHERE id = 'held' FOR UPDATE"):
            held, free = await server.outcomes(Raise(name="held"), Raise(name="free"))
        assert isinstance(held, LockBusy)
        assert free.count == 1


async def test_servers_behind_a_pooler_wake_each_other(pooled: PostgresPlace) -> None:
    async with serving(pooled.store()) as one, serving(pooled.store()) as other:
        heard = Heard()
        await other.store.listen(heard)
        await heard.next()
        await one.kernel.run(Raise(name="a"))
        await heard.next()
        assert heard.topics[-1] == {counter_topic("a")}


async def test_a_pooler_that_is_killed_is_an_outage_that_ends_with_it(
    pooler: Callable[[str], Pgbouncer],
) -> None:
    session = pooler("session")
    async with serving(PostgresPlace(session.url).store(), KernelLimits(acquire_seconds=0.5)) as server:
        await server.kernel.run(Raise(name="a"))
        session.kill()
        with pytest.raises(StoreUnavailable):
            await server.kernel.run(Raise(name="a"))
        session.start()
        assert (await server.kernel.run(Raise(name="a"), acquire_seconds=30)).count == 2


async def test_two_servers_share_a_pooler_as_it_is_shipped(
    pooled: PostgresPlace, serve: Callable[..., InterlockServer], tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(ASK)
    one, other = [await asyncio.to_thread(serve, pooled.url, policy=policy) for _ in range(2)]
    bot, ann = [
        await asyncio.to_thread(one.create_key, name, kind=kind, roles=role)
        for name, kind, role in (("bot", "agent", "submit"), ("ann", "person", "review"))
    ]
    submits = [post("/api/v1/jobs", {"topic": "pay", "payload": {}}, headers=bot.headers)] * 20
    jobs = [answer.json()["id"] for answer in await fire([one.url, other.url], submits)]
    approvals = [post(f"/api/v1/approvals/{job}/approve", {}, headers=ann.headers) for job in jobs * 2]
    answers = await fire([one.url, other.url], approvals)
    assert tally(answers) == {(200, "approved"): 20, (200, "already_approved"): 20}


@pytest.mark.parametrize("mode", ["transaction", "statement"])
async def test_a_pooler_that_shares_connections_is_refused_with_what_to_do(
    pooler: Callable[[str], Pgbouncer], postgres_place: PostgresPlace, mode: str
) -> None:
    with pytest.raises(StoreDown, match=CLEAR):
        await PostgresPlace(pooler(mode).url).store().open()
    assert await postgres_place.rows("SELECT 1 FROM pg_tables WHERE schemaname = 'public'") == []


async def test_a_server_says_why_it_does_not_start_behind_a_pooler_that_shares_connections(
    pooler: Callable[[str], Pgbouncer],
) -> None:
    ended = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "interlock", "serve", "--port", "0", "--store", pooler("transaction").url],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        env=clean_env(),
    )
    assert ended.returncode != 0
    assert "pool_mode = session" in ended.stderr
    assert "Traceback" not in ended.stderr

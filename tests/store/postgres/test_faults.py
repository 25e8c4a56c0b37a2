"""PostgreSQL that is cut off, paused, killed or restarted, and COMMITs whose answers are lost on the way."""

from __future__ import annotations

import asyncio
import time

import pytest

from interlock.kernel.kernel import KernelLimits
from interlock.kernel.record import Reads
from interlock.kernel.refusal import CommandFailed, OutcomeUnknown, StoreUnavailable
from interlock.kernel.storage import StoreDown
from interlock.kernel.world import Command, World
from tests.harness.postgres import PostgresServer
from tests.harness.postgres_proxy import PostgresProxy
from tests.harness.store_places import PostgresPlace, Server, serving
from tests.kernel.counter_room import COUNTERS, TENANT, Counter, Raise, once
from tests.store.postgres.reloaded_settings import until_commits_wait, until_in_force

PATIENT = KernelLimits(acquire_seconds=20, answer_seconds=60)


class Dawdle(Command[Counter], frozen=True, kw_only=True):
    """Keeps its transaction idle for longer than the database allows, once."""

    seconds: float
    turns: list[float] = []

    def reads(self) -> Reads:
        return Reads(own=(COUNTERS.key(TENANT, "a"),))

    def decide(self, world: World) -> Counter:
        self.turns.append(self.seconds)
        if len(self.turns) == 1:
            time.sleep(self.seconds)
        return world.put(COUNTERS, Counter(tenant=TENANT, id="a", count=1))


def through(proxy: PostgresProxy) -> PostgresPlace:
    return PostgresPlace(proxy.url)


async def warmed(server: Server) -> None:
    """Every statement is prepared, so that the next COMMIT on the wire is the batch's."""
    await server.kernel.run(Raise(name="warm"))


# Lost COMMITs.


async def test_a_commit_whose_answer_is_cut_off_is_answered_with_its_result(
    proxy: PostgresProxy, postgres_place: PostgresPlace
) -> None:
    async with serving(through(proxy).store(), PATIENT) as server:
        await warmed(server)
        trap = proxy.cut_after_commit()
        outcomes = await server.outcomes(Raise(name="a"), Raise(name="a", limit=1))
        assert trap.sprung
        assert outcomes[0].count == 1
        assert await server.counts("a") == [1]
        assert await postgres_place.rows("SELECT sum(abandoned) FROM batches") == [(0,)]


async def test_a_commit_that_never_arrives_is_run_again(
    proxy: PostgresProxy, postgres_place: PostgresPlace
) -> None:
    async with serving(through(proxy).store(), PATIENT) as server:
        await warmed(server)
        trap = proxy.cut_before_commit()
        assert (await server.kernel.run(Raise(name="a"))).count == 1
        assert trap.sprung
        assert await server.counts("a") == [1]
        assert await postgres_place.rows("SELECT sum(abandoned) FROM batches") == [(1,)]


async def test_a_commit_that_could_still_arrive_is_settled_once_and_for_all(proxy: PostgresProxy) -> None:
    limits = KernelLimits(acquire_seconds=20, answer_seconds=60, settle_seconds=10)
    async with serving(through(proxy).store(), limits) as server:
        await warmed(server)
        trap = proxy.hold_commit()
        deciding = asyncio.create_task(server.kernel.run(Raise(name="a")))
        await asyncio.to_thread(trap.wait)
        await asyncio.sleep(0.5)
        assert not deciding.done(), "it must not be answered while the COMMIT can still arrive"
        arrived = await asyncio.to_thread(trap.release)
        outcome = await deciding
        assert arrived
        assert (outcome.count, outcome.version) == (1, 1)
        assert await server.counts("a") == [1]


async def test_a_commit_that_is_dropped_late_is_run_again_exactly_once(proxy: PostgresProxy) -> None:
    limits = KernelLimits(acquire_seconds=20, answer_seconds=60, settle_seconds=10)
    async with serving(through(proxy).store(), limits) as server:
        await warmed(server)
        trap = proxy.hold_commit()
        deciding = asyncio.create_task(server.kernel.run(Raise(name="a")))
        await asyncio.to_thread(trap.wait)
        await asyncio.to_thread(trap.abandon)
        assert (await deciding).count == 1
        assert await server.counts("a") == [1]


async def test_a_commit_that_nobody_can_settle_in_time_is_unknown_and_safe_to_repeat(
    proxy: PostgresProxy,
) -> None:
    limits = KernelLimits(acquire_seconds=20, answer_seconds=60, settle_seconds=0.3)
    async with serving(through(proxy).store(), limits) as server:
        await warmed(server)
        trap = proxy.hold_commit()
        with pytest.raises(OutcomeUnknown):
            await server.kernel.run(once("key", hours=1))
        await asyncio.to_thread(trap.release)
        again = await server.kernel.run(once("key", hours=1))
        assert again.body == b"1"
        assert await server.counts("a") == [1]


async def test_a_warning_on_commit_is_unknown_and_is_not_settled(
    proxy: PostgresProxy, postgres_place: PostgresPlace
) -> None:
    async with serving(through(proxy).store(), PATIENT) as server:
        await warmed(server)
        trap = proxy.warn_on_commit()
        with pytest.raises(OutcomeUnknown):
            await server.kernel.run(once("key", hours=1))
        assert trap.sprung
        assert await postgres_place.rows("SELECT count(*) FROM batches") == [(2,)]
        assert (await server.kernel.run(once("key", hours=1))).replayed
        assert (await server.kernel.run(Raise(name="b"))).count == 1


async def test_a_warning_before_commit_says_nothing_about_the_commit(postgres_place: PostgresPlace) -> None:
    async with serving(postgres_place.store(), PATIENT) as server:
        await postgres_place.rows(
            "CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE WARNING 'an index wants care'; RETURN NEW; END $$"
        )
        await postgres_place.rows(
            "CREATE TRIGGER warn BEFORE INSERT ON principals FOR EACH ROW EXECUTE FUNCTION warn()"
        )
        assert (await server.kernel.run(Raise(name="a"))).count == 1


async def test_a_commit_that_hangs_is_given_up_without_asking_the_server_to_cancel_it(
    private_place: PostgresPlace,
) -> None:
    """A cancelled wait for a standby would leave the COMMIT done on this side only, yet settled as done."""
    store = private_place.store(io_seconds=1.0)
    limits = KernelLimits(acquire_seconds=20, answer_seconds=60, settle_seconds=0.5)
    async with serving(store, limits) as server:
        await server.kernel.run(Raise(name="a"))
        await private_place.rows("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        await private_place.rows("SELECT pg_reload_conf()")
        try:
            await until_commits_wait(private_place)
            with pytest.raises(OutcomeUnknown):
                await server.kernel.run(Raise(name="a"))
            # A cancelled COMMIT would show at once, though no standby has it.
            assert await server.counts("a") == [1]
        finally:
            await private_place.rows("ALTER SYSTEM RESET synchronous_standby_names")
            await private_place.rows("SELECT pg_reload_conf()")
        async with asyncio.timeout(30):
            while await server.counts("a") != [2]:
                await asyncio.sleep(0.05)


# Outages.


async def test_a_database_that_stalls_is_unavailable_within_the_budget_and_comes_back(
    proxy: PostgresProxy,
) -> None:
    async with serving(through(proxy).store()) as server:
        await warmed(server)
        proxy.stall()
        started = time.monotonic()
        outcomes = await server.outcomes(*(Raise(name="a") for _ in range(300)))
        assert {type(outcome) for outcome in outcomes} == {StoreUnavailable}
        assert time.monotonic() - started < 10  # a hang guard
        with pytest.raises(StoreDown):
            await server.store.ping(0.2)
        with pytest.raises(StoreDown):
            await server.store.get(COUNTERS, TENANT, "a")
        proxy.resume()
        done = await server.kernel.run(Raise(name="b"), acquire_seconds=30)
        assert done.count == 1


async def test_a_paused_server_is_unavailable_never_busy_and_comes_back(
    private_postgres: PostgresServer, private_place: PostgresPlace
) -> None:
    async with serving(private_place.store(lanes=2)) as server:
        await warmed(server)
        private_postgres.pause()
        outcomes = await server.outcomes(*(Raise(name="a") for _ in range(300)))
        assert {type(outcome) for outcome in outcomes} == {StoreUnavailable}
        private_postgres.resume()
        assert (await server.kernel.run(Raise(name="a"), acquire_seconds=30)).count == 1


async def test_a_server_that_is_killed_and_restarted_is_found_again(
    private_postgres: PostgresServer, private_place: PostgresPlace
) -> None:
    async with serving(private_place.store()) as server:
        assert (await server.kernel.run(Raise(name="a"))).count == 1
        private_postgres.kill()
        with pytest.raises(StoreUnavailable):
            await server.kernel.run(Raise(name="a"), acquire_seconds=0.3)
        waiting = asyncio.create_task(server.kernel.run(Raise(name="a"), acquire_seconds=60))
        await asyncio.to_thread(private_postgres.start)
        assert (await waiting).count == 2
        assert await server.counts("a") == [2]


async def test_connections_that_were_cut_while_idle_are_replaced_without_an_error(
    postgres_place: PostgresPlace,
) -> None:
    async with serving(postgres_place.store()) as server:
        await server.kernel.run(Raise(name="a"))
        assert await server.counts("a") == [1]
        await postgres_place.rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        assert await server.counts("a") == [1]
        assert (await server.kernel.run(Raise(name="a"))).count == 2


async def test_a_connection_that_was_told_goodbye_is_replaced_before_it_is_seen_closed(
    proxy: PostgresProxy,
) -> None:
    """On a busy machine the server's last words come well before the end of the connection."""
    async with serving(through(proxy).store()) as server:
        await server.kernel.run(Raise(name="a"))
        assert await server.counts("a") == [1]
        proxy.say_goodbye()
        await asyncio.sleep(0.05)  # the driver hears it
        assert await server.counts("a") == [1]
        assert (await server.kernel.run(Raise(name="a"))).count == 2


async def test_a_transaction_that_idles_too_long_is_ended_by_the_database_and_run_again(
    postgres_place: PostgresPlace,
) -> None:
    async with serving(postgres_place.store(io_seconds=10), PATIENT) as server:
        dawdling = Dawdle(seconds=2.5, turns=[])
        assert (await server.kernel.run(dawdling)).count == 1
        assert len(dawdling.turns) == 2


async def test_a_database_that_does_not_exist_is_down_with_a_reason(postgres_place: PostgresPlace) -> None:
    store = postgres_place.store(url=postgres_place.url.rpartition("/")[0] + "/nowhere")
    with pytest.raises(StoreDown, match="nowhere"):
        await store.open()


async def test_a_server_that_takes_no_writes_is_unavailable(private_place: PostgresPlace) -> None:
    async with serving(private_place.store(), KernelLimits(acquire_seconds=0.5)) as server:
        await server.kernel.run(Raise(name="a"))
        await private_place.rows("ALTER SYSTEM SET default_transaction_read_only = on")
        await private_place.rows("SELECT pg_reload_conf()")
        await until_in_force(private_place, "default_transaction_read_only", "on")
        with pytest.raises(StoreUnavailable):
            await server.kernel.run(Raise(name="a"))


# Values.


async def test_a_nul_character_fails_alone(postgres_place: PostgresPlace) -> None:
    async with serving(postgres_place.store()) as server:
        first, failed, last = await server.outcomes(
            Raise(name="a"), Raise(name="nul \0 inside"), Raise(name="b")
        )
        assert isinstance(failed, CommandFailed)
        assert (first.count, last.count) == (1, 1)


async def test_what_is_acknowledged_is_durable_even_if_the_role_says_otherwise(
    postgres_place: PostgresPlace,
) -> None:
    name = postgres_place.url.rpartition("/")[2]
    await postgres_place.rows(f'ALTER DATABASE "{name}" SET synchronous_commit = off')
    store = postgres_place.store()
    async with serving(store), store._connections.writer() as writer:
        assert await writer.session.fetchval("SHOW synchronous_commit") == "on"

"""A COMMIT that a standby did not confirm, however its wait ended, is nobody's success."""

from __future__ import annotations

import asyncio

import pytest

from interlock.kernel.kernel import KernelLimits
from interlock.kernel.refusal import OutcomeUnknown
from tests.harness.store_places import PostgresPlace, serving
from tests.kernel.counter_room import Raise
from tests.store.postgres.reloaded_settings import until_commits_wait

LIMITS = KernelLimits(acquire_seconds=20, answer_seconds=60)
END = (
    "SELECT {verb}(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = 'interlock'"
)


@pytest.mark.parametrize("verb", ["pg_cancel_backend", "pg_terminate_backend"])
async def test_a_wait_for_a_standby_that_somebody_ends_is_unknown(
    private_place: PostgresPlace, verb: str
) -> None:
    async with serving(private_place.store(io_seconds=10.0), LIMITS) as server:
        await server.kernel.run(Raise(name="a"))
        await private_place.rows("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        await private_place.rows("SELECT pg_reload_conf()")
        try:
            await until_commits_wait(private_place)
            raising = asyncio.create_task(server.kernel.run(Raise(name="a")))
            async with asyncio.timeout(30):
                while not await private_place.rows(END.format(verb=verb)):
                    await asyncio.sleep(0.05)
            with pytest.raises(OutcomeUnknown):
                await raising
        finally:
            await private_place.rows("ALTER SYSTEM RESET synchronous_standby_names")
            await private_place.rows("SELECT pg_reload_conf()")

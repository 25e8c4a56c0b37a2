"""What the loop that advances runs does while the store is away."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from interlock.kernel.storage import StoreDown
from tests.harness.in_process_api import InProcessApi


async def test_an_outage_is_no_fault_of_the_loop_that_advances_runs(
    api: InProcessApi, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    was_asked = asyncio.Event()

    async def away(*args: Any) -> Any:
        was_asked.set()
        raise StoreDown("gone")

    with caplog.at_level(logging.DEBUG, "interlock.service.workflows"), monkeypatch.context() as outage:
        outage.setattr(api.service.store, "query", away)
        api.service.workflows.start()
        async with asyncio.timeout(30):
            await was_asked.wait()
            while not caplog.records:
                await asyncio.sleep(0.01)

    assert {record.levelname for record in caplog.records} == {"DEBUG"}

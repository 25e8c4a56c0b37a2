"""Jobs with people and workers, on memory and on durable stores."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from interlock.store.urls import store_for
from tests.harness.in_process_api import open_api
from tests.rooms.jobs.job_client import JobClient


@pytest.fixture
async def client() -> AsyncIterator[JobClient]:
    """A service on an empty memory store with a virtual clock, and people and workers on it."""
    async with open_api() as api:
        yield await JobClient(api).open()


@pytest.fixture
async def durable_client(durable_url: str) -> AsyncIterator[JobClient]:
    """The same on an empty durable store, of either kind, with that store's own clock."""
    async with open_api(store_for(durable_url), retry_base_seconds=0.01) as api:
        yield await JobClient(api).open()

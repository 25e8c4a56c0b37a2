"""A client on an empty store in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.harness.in_process_api import open_api
from tests.rooms.jobs.job_client import JobClient


@pytest.fixture
async def client() -> AsyncIterator[JobClient]:
    """A service on an empty memory store with a virtual clock, and people and workers on it."""
    async with open_api() as api:
        yield await JobClient(api).open()

"""A client on an empty store in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.harness.in_process_api import open_api
from tests.rooms.leases.lease_client import LeaseClient


@pytest.fixture
async def client() -> AsyncIterator[LeaseClient]:
    """A service on an empty memory store with a virtual clock, and three agents who want the same things."""
    async with open_api() as api:
        yield await LeaseClient(api).open()

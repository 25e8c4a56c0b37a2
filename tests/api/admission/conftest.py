"""Services in which callers wait for slots: on memory, and on a file that other processes can lock."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from interlock.store import store_for
from tests.harness.in_process_api import open_api
from tests.rooms.admission.admission_client import AdmissionClient


@pytest.fixture
async def client() -> AsyncIterator[AdmissionClient]:
    """A service on an empty memory store with a virtual clock."""
    async with open_api() as api:
        yield await AdmissionClient(api).open()


@pytest.fixture
async def file_client(sqlite_url: str) -> AsyncIterator[AdmissionClient]:
    """A service on an empty SQLite file, with little patience."""
    async with open_api(store_for(sqlite_url), acquire_seconds=0.3) as api:
        yield await AdmissionClient(api).open()

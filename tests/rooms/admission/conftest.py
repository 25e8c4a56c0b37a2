"""A client on an empty store in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.harness.in_process_api import open_api
from tests.rooms.admission.admission_client import AdmissionClient


@pytest.fixture
async def client() -> AsyncIterator[AdmissionClient]:
    """A service on an empty memory store with a virtual clock, an operator and an agent who starts runs."""
    async with open_api() as api:
        yield await AdmissionClient(api).open()

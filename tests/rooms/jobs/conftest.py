"""The shift these tests work."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.harness.in_process_api import open_stage
from tests.rooms.jobs.job_client import Shift


@pytest.fixture
async def shift() -> AsyncIterator[Shift]:
    """A service on an empty memory store with a virtual clock, and people and workers on it."""
    async with open_stage() as stage:
        yield await Shift(stage).open()

"""The stage these tests play on."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.api.rooms.stage import Stage, open_stage


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """A service on an empty memory store with a virtual clock."""
    async with open_stage() as opened:
        yield opened

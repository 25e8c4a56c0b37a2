"""The stage these tests play on."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.harness.in_process_api import open_stage
from tests.rooms.effects.effect_client import Actors


@pytest.fixture
async def actors() -> AsyncIterator[Actors]:
    """A service on an empty memory store with a virtual clock, and agents and people on it."""
    async with open_stage() as stage:
        yield await Actors(stage).open()

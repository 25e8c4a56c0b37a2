"""The stage these tests play on."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.api.rooms.stage import open_stage
from tests.rules.effects.actors import Actors


@pytest.fixture
async def actors() -> AsyncIterator[Actors]:
    """A service on an empty memory store with a virtual clock, and agents and people on it."""
    async with open_stage() as stage:
        yield await Actors(stage).open()

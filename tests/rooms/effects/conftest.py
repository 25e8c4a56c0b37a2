"""The API that these tests call."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.harness.in_process_api import open_api
from tests.rooms.effects.effect_client import Actors


@pytest.fixture
async def actors() -> AsyncIterator[Actors]:
    """A service on an empty memory store with a virtual clock, and agents and people on it."""
    async with open_api() as api:
        yield await Actors(api).open()

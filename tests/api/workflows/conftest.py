"""The stage these tests play on."""

from __future__ import annotations

from tests.api.rooms.conftest import stage

__all__ = ["stage"]

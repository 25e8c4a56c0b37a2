"""The stage these tests play on."""

from __future__ import annotations

from tests.rooms.effects.conftest import actors

__all__ = ["actors"]

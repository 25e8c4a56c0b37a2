"""The API that these tests call."""

from __future__ import annotations

from tests.rooms.effects.conftest import actors

__all__ = ["actors"]

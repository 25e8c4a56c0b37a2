"""The stage these tests play on."""

from __future__ import annotations

from tests.rules.effects.conftest import actors

__all__ = ["actors"]

"""The stages that policies play on: those of the rooms' own tests."""

from __future__ import annotations

from tests.api.rooms.conftest import durable, durable_url, stage

__all__ = ["durable", "durable_url", "stage"]

"""Stores of every kind to read events from."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["sqlite", "postgres", "memory"])
def any_store(request: pytest.FixtureRequest) -> str:
    return "memory:" if request.param == "memory" else request.getfixturevalue(f"{request.param}_url")

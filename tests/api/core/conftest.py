"""The shelf service, ready to be asked."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.api.core.sample_service import KEY, Service


@pytest.fixture
def service() -> Service:
    """Serve with a JSON log."""
    return Service()


@pytest.fixture
def serving() -> Callable[..., Service]:
    """Serve with a log of one's choice."""
    return Service


@pytest.fixture
def key() -> str:
    """The one key that is known."""
    return KEY

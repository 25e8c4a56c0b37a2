"""What the campaigns share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest


@pytest.fixture
def leaving() -> Iterator[contextlib.ExitStack]:
    """What is entered here is left at the end of the test."""
    with contextlib.ExitStack() as stack:
        yield stack

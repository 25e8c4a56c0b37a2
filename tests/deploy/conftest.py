"""The image of the Containerfile, made once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.container import Image, can_isolate


@pytest.fixture(scope="session")
def image() -> Iterator[Image]:
    """The image, built; its tests share it, and each empties the volume or keeps to a folder of its own."""
    if not can_isolate():
        pytest.skip("this user may not make a file system of its own here, as containers do")
    made = Image()
    try:
        yield made.build()
    finally:
        made.close()

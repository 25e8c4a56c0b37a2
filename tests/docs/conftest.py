"""Fixtures for the tests of the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import site


@pytest.fixture(scope="session")
def built_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of this repository in its only version, 1.2.0, as `make site` builds it."""
    folder = tmp_path_factory.mktemp("site")
    assert site.build(folder, "1.2.0") == 0
    return folder

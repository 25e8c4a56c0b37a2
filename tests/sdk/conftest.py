"""Nothing of the developer's own set-up may reach these tests."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "INTERLOCK_URL",
        "INTERLOCK_KEY",
        "INTERLOCK_STORE",
        "HTTP_PROXY",
        "http_proxy",
        "ALL_PROXY",
    ):
        monkeypatch.delenv(name, raising=False)

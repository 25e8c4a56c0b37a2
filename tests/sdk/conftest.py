"""What these tests share. Nothing of the developer's own set-up may reach them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interlock import Interlock
from tests.harness.server import InterlockServer
from tests.sdk.approval_team import ApprovalTeam
from tests.sdk.gate_place import PLACES, Place, opened


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


@pytest.fixture
def team(tmp_path: Path) -> Iterator[ApprovalTeam]:
    team = ApprovalTeam(tmp_path)
    yield team
    team.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "interlock.db"


@pytest.fixture
def il(path: Path) -> Iterator[Interlock]:
    with Interlock(store=f"sqlite:///{path}") as il:
        il.apply_policy({"version": "v1", "default": "allow", "rules": []})
        yield il


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, serve: Callable[..., InterlockServer]) -> Iterator[Place]:
    """Somewhere to make gated calls from."""
    with opened(str(request.param), request, serve) as made:
        yield made

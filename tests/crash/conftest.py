"""What crash tests start and kill."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.server import InterlockServer, Key
from tests.races.deployment import ASK, in_thread, make_keys

Start = Callable[..., InterlockServer]


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """A policy that asks people about `pay`."""
    path = tmp_path / "policy.yaml"
    path.write_text(ASK)
    return path


@pytest.fixture
def start(policy: Path) -> Iterator[Start]:
    """Starts servers with the policy, `start(store, INTERLOCK_…="…")`, and ends them after the test."""
    started: list[InterlockServer] = []

    def begin(store: str, **env: str) -> InterlockServer:
        started.append(InterlockServer(store, policy=policy, env=env))
        return started[-1].start()

    yield begin
    for server in started:
        server.close()


@pytest.fixture
def keys_in() -> Callable[[str], dict[str, Key]]:
    """Makes an admin, an agent and reviewers in a store, whether or not a server runs on it."""
    return lambda store: in_thread(make_keys(store))

"""Stores differ in where records live and in nothing a caller can see."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from interlock.kernel.world import Command
from tests.conformance.differential import Contestant, bursts, shared_bursts
from tests.harness.soak import dose
from tests.harness.store_places import MemoryPlace, PostgresPlace, SqlitePlace


class Contest:
    """The three stores, open on one event loop for all rounds."""

    def __init__(self, folder: Path, postgres_url: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._stores = {
            "memory": Contestant(MemoryPlace()),
            "sqlite": Contestant(SqlitePlace(folder / "contest.db")),
            "postgres": Contestant(PostgresPlace(postgres_url)),
        }
        self._each(lambda store: store.open())

    def play(self, rounds: list[list[Command[Any]]]) -> dict[str, Any]:
        return self._each(lambda store: store.play(rounds))

    def close(self) -> None:
        self._each(lambda store: store.close())
        self._loop.close()

    def _each(self, act: Any) -> dict[str, Any]:
        return {name: self._loop.run_until_complete(act(store)) for name, store in self._stores.items()}


@pytest.fixture
def contest(tmp_path: Path, postgres_url: str) -> Iterator[Contest]:
    opened = Contest(tmp_path, postgres_url)
    yield opened
    opened.close()


@settings(max_examples=dose(100))
@given(rounds=bursts())
def test_no_sequence_of_commands_tells_the_stores_apart(
    contest: Contest, rounds: list[list[Command[Any]]]
) -> None:
    _compare(contest.play(rounds))


@settings(max_examples=dose(60))
@given(rounds=shared_bursts())
def test_no_sequence_of_shared_work_tells_the_stores_apart(
    contest: Contest, rounds: list[list[Command[Any]]]
) -> None:
    _compare(contest.play(rounds))


def _compare(played: dict[str, Any]) -> None:
    outcomes = {name: result[0] for name, result in played.items()}
    stored = {name: result[1] for name, result in played.items()}
    assert outcomes["sqlite"] == outcomes["memory"]
    assert outcomes["postgres"] == outcomes["memory"]
    assert stored["sqlite"] == stored["memory"]
    assert stored["postgres"] == stored["memory"]

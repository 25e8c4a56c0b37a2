"""What the server says to COMMIT, or does not, and what becomes of the batch for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import asyncpg
import pytest

from interlock.kernel.storage import CommitUnconfirmed, CommitUnknown, StoreDown
from interlock.store.postgres.batch import commit
from interlock.store.postgres.connections import Writer
from interlock.store.postgres.driver import PostgresConnection, Warned

CUT = asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")


class StandbyWarning(Warned):
    severity = "WARNUNG"
    severity_en = "WARNING"
    message = "canceling wait for synchronous replication due to user request"


class Told:
    """A connection that answers COMMIT as it is told; one that is told nothing never answers."""

    def __init__(
        self, answer: str | Exception | None, *, warned: bool = False, in_transaction: bool = False
    ) -> None:
        self._answer = answer
        self._warned = warned
        self._in_transaction = in_transaction
        self._warn: Callable[[Any, Warned], None] | None = None
        self._closed = asyncio.Event()
        self.sent: list[str] = []

    def add_log_listener(self, callback: Callable[[Any, Warned], None]) -> None:
        self._warn = callback

    async def execute(self, query: str, *, timeout: float) -> str:
        self.sent.append(query)
        if self._warned:
            assert self._warn is not None
            self._warn(self, StandbyWarning())
        if self._answer is CUT:
            self._closed.set()
        if self._answer is None:
            await self._closed.wait()
            raise CUT
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    def is_in_transaction(self) -> bool:
        return self._in_transaction

    def is_closed(self) -> bool:
        return self._closed.is_set()

    def terminate(self) -> None:
        self._closed.set()


async def committed(told: Told, seconds: float = 30.0) -> None:
    await commit(Writer(cast("PostgresConnection", told)), seconds)


async def test_a_commit_that_is_confirmed_is_done() -> None:
    told = Told("COMMIT")
    await committed(told)
    assert told.sent == ["COMMIT"]


@pytest.mark.parametrize("answer", ["COMMIT", CUT])
async def test_a_commit_that_the_server_warns_of_is_unconfirmed_even_if_nothing_else_is_heard(
    answer: str | Exception,
) -> None:
    with pytest.raises(CommitUnconfirmed, match="synchronous replication"):
        await committed(Told(answer, warned=True))


async def test_a_warning_from_before_the_commit_says_nothing_about_it() -> None:
    writer = Writer(cast("PostgresConnection", Told("COMMIT")))
    writer.warnings.append("an index wants care")
    await commit(writer, 30.0)


@pytest.mark.parametrize(
    "told",
    [
        lambda: Told(CUT),
        lambda: Told(asyncpg.RaiseError("said by a trigger that runs at the end")),
        lambda: Told(asyncpg.RaiseError("said by a trigger that warned before"), warned=True),
        lambda: Told("COMMIT", in_transaction=True),
        lambda: Told("PREPARE TRANSACTION"),
    ],
)
async def test_a_commit_whose_end_is_not_heard_or_not_understood_is_unknown(told: Callable[[], Told]) -> None:
    with pytest.raises(CommitUnknown):
        await committed(told())


async def test_a_commit_that_takes_too_long_is_cut_off_and_unknown() -> None:
    told = Told(None)
    with pytest.raises(CommitUnknown):
        await committed(told, seconds=0.01)
    assert told.is_closed()


async def test_a_commit_whose_caller_is_cancelled_is_cut_off() -> None:
    told = Told(None)
    committing = asyncio.create_task(committed(told))
    while not told.sent:
        await asyncio.sleep(0)
    committing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await committing
    assert told.is_closed()


async def test_a_commit_that_is_answered_with_rollback_did_not_happen() -> None:
    with pytest.raises(StoreDown):
        await committed(Told("ROLLBACK"))


async def test_what_was_never_sent_is_no_unknown_commit() -> None:
    told = Told("COMMIT")
    told.terminate()
    with pytest.raises(ConnectionError):
        await committed(told)
    assert told.sent == []

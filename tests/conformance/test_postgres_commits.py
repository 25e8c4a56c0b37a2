"""What the server says to COMMIT, or does not, and what becomes of the batch for it."""

from __future__ import annotations

from typing import Any, cast

import asyncpg
import pytest

from interlock.kernel.storage import CommitUnconfirmed, CommitUnknown, StoreDown, WriteConflict
from interlock.store.postgres.pipeline import COMMIT, Answer, Asked, Lost, NotSent, Pipeline
from interlock.store.postgres.store import _commit

WRITING = Asked("SELECT 1")
WARNED = "canceling wait for synchronous replication due to user request"


class Told:
    """A connection that answers the writes, and COMMIT as it is told."""

    def __init__(self, outcome: Any, *, in_transaction: bool = False, failed: bool = False) -> None:
        self._outcome = outcome
        self.is_in_transaction = in_transaction or failed
        self.has_failed = failed

    async def ask(self, *asked: Asked, seconds: float) -> list[Answer]:
        assert asked == (WRITING, COMMIT)
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return [Answer([], "SELECT 1", ""), self._outcome]


async def commit(told: Told) -> None:
    await _commit(cast("Pipeline", told), WRITING, 1.0)


async def test_a_commit_that_is_confirmed_is_done() -> None:
    await commit(Told(Answer([], "COMMIT", "")))


@pytest.mark.parametrize("outcome", [Answer([], "COMMIT", WARNED), Lost("cut", 1, WARNED)])
async def test_a_commit_that_the_server_warns_of_is_unconfirmed_even_if_nothing_else_is_heard(
    outcome: Any,
) -> None:
    with pytest.raises(CommitUnconfirmed, match="synchronous replication"):
        await commit(Told(outcome))


@pytest.mark.parametrize(
    "told",
    [
        Told(Lost("cut", 0, "an index wants care")),
        Told(Lost("cut", 1, "")),
        Told(TimeoutError(), in_transaction=True),
        Told(asyncpg.RaiseError("said at the end of the exchange, and no transaction is open")),
        Told(Answer([], "COMMIT", ""), in_transaction=True),
        Told(Answer([], "PREPARE TRANSACTION", "")),
    ],
)
async def test_a_commit_whose_end_is_not_heard_or_not_understood_is_unknown(told: Told) -> None:
    with pytest.raises(CommitUnknown):
        await commit(told)


async def test_a_commit_that_is_answered_with_rollback_did_not_happen() -> None:
    with pytest.raises(StoreDown):
        await commit(Told(Answer([], "ROLLBACK", "")))


async def test_writes_that_found_a_row_changed_are_a_conflict() -> None:
    with pytest.raises(WriteConflict):
        await commit(Told(asyncpg.DivisionByZeroError(), failed=True))


@pytest.mark.parametrize("error", [NotSent("closed"), ValueError("a lone surrogate")])
async def test_what_was_never_sent_is_no_unknown_commit(error: Exception) -> None:
    with pytest.raises(type(error)):
        await commit(Told(error, in_transaction=True))


async def test_writes_that_the_server_refused_are_refused_for_certain() -> None:
    with pytest.raises(asyncpg.UniqueViolationError):
        await commit(Told(asyncpg.UniqueViolationError(), failed=True))

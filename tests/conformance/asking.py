"""Processes that ask each other to decide, played by connections and threads of one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from interlock.effects.rules import BeginEffect, Begun
from interlock.grants.claiming import ClaimGrant, NotClaimed
from interlock.grants.model import GrantUse
from interlock.grants.rules import IssueGrant
from interlock.kernel.batch import Batch
from interlock.kernel.command import Command
from interlock.kernel.ids import new_id
from interlock.kernel.pending import Pending
from interlock.runtime.local_kernel import LocalKernel
from interlock.runtime.requests import REQUESTS
from interlock.store.asking import Asking
from interlock.store.beside import Beside
from interlock.store.sqlite import guests as sqlite_guests
from interlock.store.sqlite.driver import connect
from interlock.store.sqlite_blocking import BlockingSqlite
from interlock.store.turns import Turns

T = TypeVar("T")

NOTHING = msgspec.Raw(b"{}")
PATIENCE = 30  # a hang guard
WON = "audit_entries WHERE action = 'grant_claim'"
SPENT = "grants WHERE state = 'spent'"


class Asker:
    """A process that finds the lock taken, as far as the store can tell: it has a connection and a thread."""

    def __init__(self, url: str, pool: ThreadPoolExecutor, seconds: float) -> None:
        self.store = LocalKernel(url, acquire_seconds=seconds)
        self._pool = pool

    def run(self, command: Command[T]) -> Future[T]:
        return self._pool.submit(self.store.run, command)

    def claim(self, execution_id: str | None = None, **how: Any) -> Future[GrantUse | NotClaimed]:
        return self.run(self.claim_of(execution_id, **how))

    def claim_of(self, execution_id: str | None = None, *, args: bytes = b"{}", **how: Any) -> ClaimGrant:
        return ClaimGrant(
            caller=self.store.caller,
            task="t",
            args=msgspec.Raw(args),
            execution_id=execution_id or new_id("exec"),
            **how,
        )

    def begin(self, action_id: str) -> Future[Begun]:
        """As `interlock exec` does."""
        command = BeginEffect(
            caller=self.store.caller,
            action_id=action_id,
            request_hash="sha256:1",
            grant=self.claim_of(action_id, action_id=action_id),
            attempt=new_id("att"),
        )
        return self.run(command)


class Holder:
    """A process in the middle of its transaction, which goes on step by step."""

    def __init__(self, path: Path) -> None:
        self.file = BlockingSqlite(path)
        self.lock = self.file._lock
        self._path = path
        shared = Beside(path)
        assert shared.open(make=True)
        self.others = Asking(shared, Turns(shared))

    def begin(self) -> None:
        assert self.file._begin(1.0)

    def sees(self, count: int) -> None:
        """Wait until so many ask."""
        until(lambda: len(self.others.requests()) == count)

    def decide(self, *own: Command[Any]) -> list[Any]:
        """Its own commands, and what others ask for."""
        members = [Pending(each, cast("Any", None), now=0.0, budget=1.0, weight=0) for each in own]
        self.batch = batch = Batch(new_id("batch"), members, new_id, REQUESTS)
        transaction = batch.transaction(1.0)
        sqlite_guests.decide_and_write(self.file._batches, self.lock, transaction, alone=False)
        return [batch.outcomes[member] for member in members]

    def commit(self) -> None:
        self.file._commit()

    def commit_and_end(self) -> None:
        """As one that is killed before it has told anybody."""
        self.file._database.execute("COMMIT")
        self.file.close()

    def end(self) -> None:
        """As one that is killed: what it has not committed is gone."""
        self.file.close()

    def count(self, what: str) -> int:
        database = connect(str(self._path))
        try:
            return database.execute(f"SELECT count(*) FROM {what}").get
        finally:
            database.close()


class Scene:
    """A file, somebody who has its lock, and others who want something decided."""

    def __init__(self, folder: Path, pool: ThreadPoolExecutor) -> None:
        self.path = folder / "a.db"
        self.url = f"sqlite:///{self.path}"
        self._pool = pool
        LocalKernel(self.url).close()  # makes the file
        self.first = LocalKernel(self.url)
        self.holder = Holder(self.path)
        self._askers: list[Asker] = []

    def issue(self, count: int, **what: Any) -> None:
        for _ in range(count):
            self.first.run(
                IssueGrant(
                    caller=self.first.caller, grant_id=new_id("gnt"), task="t", expires_seconds=60, **what
                )
            )

    def askers(self, count: int, *, seconds: float = PATIENCE) -> list[Asker]:
        made = [Asker(self.url, self._pool, seconds) for _ in range(count)]
        self._askers += made
        return made

    def claims_of(self, askers: Sequence[Asker]) -> list[Future[GrantUse | NotClaimed]]:
        """What all of them ask for once the holder has the lock, and sees it."""
        self.holder.begin()
        claims = [asker.claim() for asker in askers]
        self.holder.sees(len(askers))
        return claims

    def close(self) -> None:
        for asker in self._askers:
            asker.store.close()
        self.first.close()


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def won(claims: list[Future[GrantUse | NotClaimed]]) -> list[GrantUse]:
    found = [claim.result(PATIENCE) for claim in claims]
    assert all(isinstance(use, GrantUse) for use in found)
    return cast("list[GrantUse]", found)

"""The SQLite file's one writer lock, and how to wait for it: the same with an event loop and without.

Whoever waits tries, rests until somebody says that the lock is free (turns.py), and tries again. Meanwhile whoever has
the lock may decide what is waited for (asking.py). How to rest is the caller's business, on its own thread or on
another one, so `tries` hands each rest out instead of taking it.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path

from interlock.kernel.record import Key, Record
from interlock.kernel.storage import CommitUnconfirmed, Company, LockTimeout, StoreDown
from interlock.store.asking import Asking, Request
from interlock.store.beside import Beside, File, file_at
from interlock.store.sqlite.batch import select
from interlock.store.sqlite.driver import BROKEN, BUSY, Database, reading, roll_back, try_to_begin
from interlock.store.turns import Turns

Rest = Callable[[], None]

# Where nobody says that the lock is free, each looks a few times in the time that a turn takes. Whoever has just
# written finds it free before anybody who sleeps wakes up, so it lets others go first while there are others.
_JITTER = (0.5, 1.5)
_LOOKING_SECONDS_MIN, _LOOKING_SECONDS_MAX = 0.0005, 0.005
_COMPANY_SECONDS = 0.5
# Where somebody says it, this is only for one who was stopped or killed before it could. Whoever runs already is
# quicker than whoever must wake up first, so it has a few turns in a row.
_TOLD_SECONDS = 0.02
_TURNS_IN_A_ROW = 8
# Whoever has been promised a COMMIT waits so much longer to see how it ends.
_PROMISED_SECONDS = 2.0


class WriterLock:
    """One connection's way to the lock. It has it from the end of `tries` to COMMIT or ROLLBACK."""

    def __init__(self, database: Database, path: Path, file: File | None = None) -> None:
        """`file` is what was at the path before it was opened: afterwards another one may be."""
        self._database = database
        self._cursor = database.cursor()
        self._path = str(path)
        self._file = file or file_at(self._path)
        self._beside = Beside(path, self._file)
        self._turns = Turns(self._beside)
        self._asking = Asking(self._beside, self._turns)
        self._taken_along: list[Request] = []
        self._seen_version: int | None = None
        self._company_until = 0.0
        self._began_at = 0.0
        self._held_seconds = 0.0
        self._woke_one: bool | None = None  # None where nobody can tell
        self._in_a_row = 0

    def tries(self, acquire_seconds: float, company: Company | None = None) -> Generator[Rest]:
        """Try to begin a transaction; what comes out is to be called before the next try.

        Ends once the transaction has begun, or once somebody else has decided what `company` asks for; then none has.
        Raises `LockTimeout` when the time is up, `StoreDown` if the file is bad, and `CommitUnconfirmed` if somebody
        else is about to commit what was asked for and does not get on with it.
        """
        deadline = time.monotonic() + acquire_seconds
        if self._has_company():
            yield self._rest(self._turns.seen())
        # Whoever has company asks first: the lock is taken more often than not.
        if not self._asking.is_usual and self._has_begun():
            return
        if company is not None and self._ask(company) and (yield from self._while_asking(company, deadline)):
            return
        while True:
            # Whoever is done between this look and the rest ends the rest.
            seen = self._turns.seen()
            if self._has_begun():
                return
            self._check_time(deadline)
            yield self._rest(seen)

    def expect_same_file(self) -> None:
        """Raise `StoreDown` if the file at the path is not the one that was opened: what is written is lost."""
        if file_at(self._path) != self._file:
            raise StoreDown(
                "the database file was removed or replaced while in use; start this process again"
            )

    def take_along(self) -> list[bytes]:
        """What others ask for, to be decided in the transaction that has begun."""
        self._taken_along = self._asking.requests()
        return [request.body for request in self._taken_along]

    def promise(self) -> bool:
        """Whether all that was taken along is still wanted; then nobody can withdraw it before the COMMIT."""
        return self._asking.promise(self._taken_along)

    def pass_on(self) -> None:
        """The transaction is over: tell those who asked, and wake whoever has waited longest.

        Nothing here may look like a failed COMMIT.
        """
        self._held_seconds = time.monotonic() - self._began_at
        self._woke_one = None
        with contextlib.suppress(Exception):
            self._asking.tell(self._taken_along)
            self._woke_one = self._turns.pass_on()
            if not self._woke_one:
                self._asking.ring_one()
        self._taken_along = []

    def close(self) -> None:
        self._asking.close()
        self._beside.close()

    def _ask(self, company: Company) -> bool:
        """Whether somebody else is asked to decide it."""
        with reading():
            request = company.request(self._find)
        return request is not None and self._asking.ask(request)

    def _while_asking(self, company: Company, deadline: float) -> Generator[Rest, None, bool]:
        """Whether it has ended: the transaction has begun, or somebody else has decided it."""
        asking, limit = self._asking, deadline + _PROMISED_SECONDS
        try:
            while True:
                heard = asking.heard()
                try:
                    if asking.is_told():
                        with reading():
                            return company.is_answered(self._find)
                    if self._has_begun():
                        return True
                except StoreDown:
                    # That would say that nothing is written, and somebody may be about to.
                    if asking.withdraw():
                        raise
                now = time.monotonic()
                if now >= deadline and asking.withdraw():
                    return False
                if now >= limit:
                    raise CommitUnconfirmed("another process was about to commit this and does not go on")
                yield partial(asking.wait, heard, _TOLD_SECONDS)
        except Exception as error:
            # Whoever hears of it says that nothing is written, or tries again and then says so.
            if asking.withdraw():
                raise
            raise CommitUnconfirmed(
                "another process was about to commit this as the file was left"
            ) from error
        finally:
            asking.drop()

    def _find(self, key: Key) -> Record | None:
        """One record as last committed."""
        return select(self._cursor, key)

    def _check_time(self, deadline: float) -> None:
        if time.monotonic() >= deadline:
            raise LockTimeout("another process holds the database's writer lock")

    def _has_begun(self) -> bool:
        try:
            roll_back(self._database)
            try_to_begin(self._database)
        except BUSY:
            return False
        except BROKEN as error:
            raise StoreDown(f"the database file does not answer: {error}") from error
        try:
            self.expect_same_file()
        except StoreDown:
            roll_back(self._database)
            raise
        self._began_at = time.monotonic()
        self._taken_along = []  # What a transaction took along that came to nothing is not decided by this one.
        return True

    def _rest(self, seen: int | None) -> Rest:
        looking = min(_LOOKING_SECONDS_MAX, max(_LOOKING_SECONDS_MIN, self._held_seconds))
        seconds = _TOLD_SECONDS if seen is not None else looking * random.uniform(*_JITTER)
        return partial(self._turns.wait, seen, seconds)

    def _has_company(self) -> bool:
        """Whether it is others' turn: somebody was woken by the last few turns, or wrote since the last one."""
        if self._woke_one is not None:
            self._in_a_row = self._in_a_row + 1 if self._woke_one else 0
            return self._in_a_row % _TURNS_IN_A_ROW == _TURNS_IN_A_ROW - 1
        now = time.monotonic()
        with reading():
            version = self._database.execute("PRAGMA data_version").get
        if self._seen_version not in (None, version):
            self._company_until = now + _COMPANY_SECONDS
        self._seen_version = version
        return now < self._company_until

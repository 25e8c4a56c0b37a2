"""Requests that are left beside the SQLite file, for whoever has its writer lock to decide with its own.

A commit takes as long for eight decisions as for one. So a process that finds the lock taken writes down what it
wants to have decided, in a place of its own in the small file (beside.py), and sleeps. Whoever has the lock takes
along what it finds there, commits, and tells those that waited. What they are told is a hint: they look into the
database for what was decided, and decide for themselves if it is not there.

Only one thing must be certain: whoever gives up has nobody decide for it later. So a request is promised just before
the COMMIT that carries it, and withdrawn, each with the same byte of the file locked: what was withdrawn cannot be
promised, and who was promised something does not know how it ends and must look. Each place has a byte of its own, so
that whoever is stopped while it has one keeps nobody else in doubt.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

from interlock.store.beside import BYTES, Beside
from interlock.store.turns import Turns

# One bell for all, who are known by the bits of their places. Of each place, the numbers of the request that is
# open, was last promised, was last told, was last asked. No number is used twice, whoever has the place.
_BELL = 8
_PLACES = 32
_OPEN, _PROMISED, _TOLD, _ASKED = 0, 4, 8, 12
_FIRST_PLACE = 64
_WORD = struct.Struct("=I")
_PLACE = struct.Struct("=4I")
_NUMBER_MAX = 2**32 - 1
# The requests themselves, each with its length and a checksum of it, its number and the database that it is about: a
# processor may show the new number before the new request. Whoever has the place has its first byte locked.
_FIRST_REQUEST = 4096
_REQUEST_BYTES = (BYTES - _FIRST_REQUEST) // _PLACES
_HEAD = struct.Struct("=II")
_NO_REQUEST = bytes(_REQUEST_BYTES)


class Request(NamedTuple):
    """What somebody wants to have decided, and where it was found."""

    place: int
    number: int
    body: bytes


class Asking:
    """The requests as one process sees them. Of one thread."""

    def __init__(self, shared: Beside, turns: Turns) -> None:
        self._shared = shared
        self._turns = turns
        self._place: int | None = None
        self._number = 0
        self._was_withdrawn = True

    @property
    def is_usual(self) -> bool:
        """Whether this process has asked, and somebody waits for the file."""
        return self._place is not None and self._turns.somebody_waits() is not None

    # For whoever waits.

    def ask(self, body: bytes) -> bool:
        """Leave a request; False if there is no room for it."""
        shared = self._shared.open(make=True)
        if shared is None or len(body) > _REQUEST_BYTES - _HEAD.size or not self._has_place():
            return False
        at = _FIRST_REQUEST + self._own() * _REQUEST_BYTES
        self._number = self._number % _NUMBER_MAX + 1
        _HEAD.pack_into(shared, at, len(body), self._checksum(body, self._number))
        shared[at + _HEAD.size : at + _HEAD.size + len(body)] = body
        self._set(self._own(), _ASKED, self._number)
        self._set(self._own(), _OPEN, self._number)
        self._turns.lie_down()
        return True

    def heard(self) -> int:
        """What to hand to `wait`, learned before anything is looked at."""
        return self._shared.futex(_BELL).value

    def wait(self, heard: int, seconds: float) -> None:
        """Sleep until somebody has rung since `heard`, or for that long."""
        self._turns.lie_down()
        self._shared.futex(_BELL).wait(heard, seconds, 1 << self._own())

    def is_told(self) -> bool:
        """Whether somebody says that the request is decided."""
        return self._get(self._own(), _TOLD) == self._number

    def withdraw(self) -> bool:
        """Whether nobody will decide the request any more; False if somebody may be about to commit it."""
        if self._place is None:
            return self._was_withdrawn
        place = self._place
        if not self._shared.try_lock(_agreeing(place)):
            return False
        try:
            if self._get(place, _PROMISED) == self._number:
                return False
            self.drop()
            return True
        finally:
            self._shared.unlock(_agreeing(place))

    def drop(self) -> None:
        """Ask no longer; for whoever has the writer lock, or knows what was decided."""
        if self._place is not None:
            self._clear(self._place)

    # For whoever has the writer lock.

    def requests(self) -> list[Request]:
        """What others ask for and nobody has promised."""
        found: list[Request] = []
        open_places, shared = self._open_places(), self._shared.mapped
        if shared is None:
            return found
        for place, number in open_places:
            if not self._shared.is_locked(_lock_of(place)):
                # Whoever asked has ended. It may have been long ago, and nobody would have what is decided now.
                self._clear(place)
                continue
            if self._shared.is_locked(_agreeing(place)):
                continue  # It is about to withdraw.
            at = _FIRST_REQUEST + place * _REQUEST_BYTES
            length, checksum = _HEAD.unpack_from(shared, at)
            body = shared[at + _HEAD.size : at + min(_HEAD.size + length, _REQUEST_BYTES)]
            if self._checksum(body, number) == checksum:
                found.append(Request(place, number, body))
        return found

    def promise(self, requests: Sequence[Request]) -> bool:
        """Whether all of them are still wanted, and nobody can withdraw one any more."""
        for count, request in enumerate(requests):
            if not self._promise_one(request):
                for promised in requests[:count]:
                    self._set(promised.place, _PROMISED, 0)
                return False
        return True

    def tell(self, requests: Sequence[Request]) -> None:
        """Tell whoever left these that they are decided."""
        if requests:
            for request in requests:
                self._set(request.place, _TOLD, request.number)
            # All at once: whoever is woken may take the processor from whoever wakes.
            self._ring(*(request.place for request in requests))

    def ring_one(self) -> None:
        """Tell one whose request nobody has taken along that the writer lock is free."""
        waiting = [place for place, _ in self._open_places()]
        if waiting:
            own = -1 if self._place is None else self._place
            self._ring(next((place for place in waiting if place > own), waiting[0]))

    def close(self) -> None:
        """The place is free once the file is closed, which may happen while something is asked for there."""
        self._was_withdrawn = self.withdraw()
        self._place = None

    # Words.

    def _has_place(self) -> bool:
        if self._place is None:
            taken = (place for place in range(_PLACES) if self._shared.try_lock(_lock_of(place)))
            self._place = next(taken, None)
            if self._place is not None:
                # What whoever had it before asked for, and perhaps withdrew, somebody may have in hand yet.
                self._number = self._get(self._place, _ASKED)
                self.drop()
        return self._place is not None

    def _open_places(self) -> list[tuple[int, int]]:
        """Where others ask, and the numbers of their requests."""
        shared = self._turns.somebody_waits()
        if shared is None:
            return []
        words = shared[_FIRST_PLACE : _FIRST_PLACE + _PLACES * _PLACE.size]
        return [
            (place, number)
            for place, (number, promised, told, _) in enumerate(_PLACE.iter_unpack(words))
            if number and number not in (promised, told) and place != self._place
        ]

    def _checksum(self, body: bytes, number: int) -> int:
        return crc32(body, number ^ self._shared.mark)

    def _own(self) -> int:
        if self._place is None:
            raise RuntimeError("nothing was asked")
        return self._place

    def _promise_one(self, request: Request) -> bool:
        if not self._shared.try_lock(_agreeing(request.place)):
            return False
        try:
            if self._get(request.place, _OPEN) != request.number:
                return False
            self._set(request.place, _PROMISED, request.number)
            return True
        finally:
            self._shared.unlock(_agreeing(request.place))

    def _clear(self, place: int) -> None:
        """Nothing is asked here, and what was is nobody's to read: the database keeps only digests of arguments."""
        self._set(place, _OPEN, 0)
        if self._shared.mapped is not None:
            at = _FIRST_REQUEST + place * _REQUEST_BYTES
            self._shared.mapped[at : at + _REQUEST_BYTES] = _NO_REQUEST

    def _ring(self, *places: int) -> None:
        self._shared.futex(_BELL).wake_all(sum(1 << place for place in places))

    def _get(self, place: int, what: int) -> int:
        shared = self._shared.mapped
        return 0 if shared is None else _WORD.unpack_from(shared, _word(place, what))[0]

    def _set(self, place: int, what: int, value: int) -> None:
        shared = self._shared.mapped
        if shared is not None:
            _WORD.pack_into(shared, _word(place, what), value)


def _word(place: int, what: int) -> int:
    return _FIRST_PLACE + place * _PLACE.size + what


def _agreeing(place: int) -> int:
    """The byte that is locked to promise or to withdraw what is asked there."""
    return place


def _lock_of(place: int) -> int:
    return _FIRST_REQUEST + place * _REQUEST_BYTES

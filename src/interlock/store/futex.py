"""Linux's futex: sleep on a word of shared memory until somebody wakes those who sleep there."""

from __future__ import annotations

import ctypes
import mmap
import os
import time

# By machine, the number of the system call.
CALLS = {"x86_64": 202, "aarch64": 98}
_WAIT, _WAKE = 9, 10  # the kinds that can tell sleepers apart
_EVERYBODY = 2**31 - 1
ANYBODY = 2**32 - 1


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class Futex:
    """One word of a mapped file, the same word in every process that maps it."""

    def __init__(self, shared: mmap.mmap, offset: int) -> None:
        self._number = CALLS[os.uname().machine]
        self._word = ctypes.c_uint32.from_buffer(shared, offset)
        self._at = ctypes.byref(self._word)
        self._call = ctypes.CDLL(None).syscall

    @property
    def value(self) -> int:
        return self._word.value

    def wait(self, expected: int, seconds: float, who: int = ANYBODY) -> None:
        """Sleep for that long at most, unless the word has changed already; a signal may end it early.

        `who` are bits to be known by: whoever wakes sleepers with one of them wakes this one.
        """
        until = time.monotonic() + seconds
        whole = int(until)
        timeout = ctypes.byref(_Timespec(whole, int((until - whole) * 1_000_000_000)))
        self._call(
            self._number, self._at, _WAIT, ctypes.c_uint32(expected), timeout, None, ctypes.c_uint32(who)
        )

    def wake_one(self) -> bool:
        """Change the word, and wake whoever has slept longest; whether anybody did."""
        return self._wake(1, ANYBODY)

    def wake_all(self, who: int) -> bool:
        """Change the word, and wake all who are known by one of these bits; whether anybody was."""
        return self._wake(_EVERYBODY, who)

    def _wake(self, most: int, who: int) -> bool:
        self._word.value += 1  # It is 32 bits wide and begins again at 0.
        return self._call(self._number, self._at, _WAKE, most, None, None, ctypes.c_uint32(who)) > 0

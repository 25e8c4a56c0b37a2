"""Linux's futex: sleep on a word of shared memory until somebody wakes the one that has slept there longest."""

from __future__ import annotations

import ctypes
import mmap
import os

# By machine, the number of the system call.
CALLS = {"x86_64": 202, "aarch64": 98}
_WAIT, _WAKE = 0, 1


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class Futex:
    """One word of a mapped file, the same word in every process that maps it."""

    def __init__(self, shared: mmap.mmap, offset: int) -> None:
        self._number = CALLS[os.uname().machine]
        self._word = ctypes.c_uint32.from_buffer(shared, offset)
        self._call = ctypes.CDLL(None).syscall

    @property
    def value(self) -> int:
        return self._word.value

    def wait(self, expected: int, seconds: float) -> None:
        """Sleep for that long at most, unless the word has changed already; a signal may end it early."""
        whole = int(seconds)
        timeout = ctypes.byref(_Timespec(whole, int((seconds - whole) * 1_000_000_000)))
        word = ctypes.byref(self._word)
        self._call(self._number, word, _WAIT, ctypes.c_uint32(expected), timeout, None, 0)

    def wake_one(self) -> bool:
        """Change the word, and wake whoever has slept longest; whether anybody did."""
        self._word.value += 1  # It is 32 bits wide and begins again at 0.
        return self._call(self._number, ctypes.byref(self._word), _WAKE, 1, None, None, 0) > 0

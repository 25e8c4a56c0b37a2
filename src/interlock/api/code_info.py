"""What is said of a problem code."""

from __future__ import annotations

import msgspec


class CodeInfo(msgspec.Struct, frozen=True):
    """What one code means and what its reader should do next."""

    code: str
    status: int
    title: str
    meaning: str
    next_step: str
    retryable: bool = False

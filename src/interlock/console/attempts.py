"""How often signing in failed lately."""

from __future__ import annotations

import time
from collections import OrderedDict

_FAILURES_MAX = 10
_WINDOW_SECONDS = 60.0
_CLIENTS_MAX = 10_000


class Attempts:
    """How often sign-in failed lately, by address: guessing is slowed down, and a person who mistypes is not."""

    def __init__(self) -> None:
        self._failed: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def wait_seconds(self, client: str | None) -> float:
        """How long this address must wait before it may try again."""
        began, count = self._failed.get(client or "", (0.0, 0))
        left = began + _WINDOW_SECONDS - time.monotonic()
        return left if count >= _FAILURES_MAX and left > 0 else 0.0

    def note(self, client: str | None) -> None:
        """Count one that failed."""
        now, name = time.monotonic(), client or ""
        began, count = self._failed.pop(name, (now, 0))
        self._failed[name] = (began, count + 1) if now - began < _WINDOW_SECONDS else (now, 1)
        if len(self._failed) > _CLIENTS_MAX:
            self._failed.popitem(last=False)

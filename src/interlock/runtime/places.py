"""Where the embedded store is if nobody says so. By itself, so that programs that start often import nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

EMBEDDED_FILE = ".interlock/interlock.db"
EMBEDDED_STORE = f"sqlite:///{EMBEDDED_FILE}"


def nearest(name: str, start: Path) -> Path | None:
    """The nearest file of this name in a folder or above it: how `interlock.yaml` and the embedded store are found."""
    return next((path for path in _candidates(name, start) if os.path.isfile(path)), None)  # noqa: PTH113 - says no to what may not be looked at


def embedded_store() -> str:
    """The embedded store for the current folder: the nearest one, or else where the first write makes it."""
    try:
        here = Path.cwd()
    except OSError:
        return EMBEDDED_STORE  # The folder is gone; whoever opens it is told.
    found = nearest(EMBEDDED_FILE, here)
    if found is None or found.parent.parent == here:
        return EMBEDDED_STORE
    return f"sqlite:///{found}"


def store_named(given: str | None) -> str | None:
    """The store that somebody named, by an option or INTERLOCK_STORE; None if it is left to `embedded_store`."""
    return given or os.environ.get("INTERLOCK_STORE") or None


def _candidates(name: str, start: Path) -> Iterator[Path]:
    return (folder / name for folder in (start, *start.parents))

"""Where the embedded store is if nobody says so. By itself, so that programs that start often import nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

EMBEDDED_FILE = ".interlock/interlock.db"
_FILE = "sqlite:///"
_SERVER = ("postgresql://", "postgres://")
EMBEDDED_STORE = f"{_FILE}{EMBEDDED_FILE}"


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
    return f"{_FILE}{found}"


def store_named(given: str | None) -> str | None:
    """The store that somebody named, by an option or INTERLOCK_STORE; None if it is left to `embedded_store`."""
    return given or os.environ.get("INTERLOCK_STORE") or None


async def make_store(url: str) -> bool:
    """Make the store if it is not there; returns whether it was made now."""
    from interlock.store.contract import StoreMissing
    from interlock.store.urls import store_for

    was_made = False
    store = store_for(url, lanes=1, makes=False)
    try:
        await store.open()
    except StoreMissing:
        was_made, store = True, store_for(url, lanes=1)
        await store.open()
    await store.close()
    return was_made


def room_at(url: str) -> tuple[str, int | None]:
    """The place of a store without its password, and how many bytes are free there, if that can be told from here."""
    if url.startswith(_FILE):
        from interlock.store.sqlite.place import free_bytes

        path = Path(url.removeprefix(_FILE)).absolute()
        return str(path), free_bytes(path)
    if url.startswith(_SERVER):
        from interlock.store.postgres.place import place_of

        return place_of(url), None
    return "memory", None


def _candidates(name: str, start: Path) -> Iterator[Path]:
    return (folder / name for folder in (start, *start.parents))

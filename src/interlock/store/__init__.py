"""Stores of records: `store_for` opens the one that a URL names: `sqlite:///path`, `postgresql://…`, `memory:`."""

from __future__ import annotations

from interlock.kernel.storage import Store


class BadStoreUrl(ValueError):
    """The URL names no store that Interlock knows."""


def store_for(url: str, *, lanes: int = 2, opening_seconds: float | None = None, makes: bool = True) -> Store:
    """A store, not yet opened. Drivers are imported only for the store that is asked for.

    `opening_seconds` is how long to wait for a file that another process has to itself; None means the default of a
    server. With `makes=False`, opening a store that is not there is refused (`StoreMissing`).
    """
    if url.startswith("sqlite:///"):
        from interlock.store.sqlite import SqliteStore
        from interlock.store.sqlite.driver import OPENING_SECONDS

        seconds = OPENING_SECONDS if opening_seconds is None else opening_seconds
        return SqliteStore(url.removeprefix("sqlite:///"), opening_seconds=seconds, makes=makes)
    if url.startswith(("postgresql://", "postgres://")):
        return _postgres(url, lanes, makes=makes)
    if url in ("memory:", "memory://"):
        from interlock.store.memory import MemoryStore

        return MemoryStore()
    raise BadStoreUrl(
        f"{url!r} is not a store URL; use sqlite:///path/to/file.db, "
        "postgresql://user@host/database or memory:"
    )


def _postgres(url: str, lanes: int, *, makes: bool) -> Store:
    try:
        from interlock.store.postgres import PostgresStore
    except ImportError as error:
        raise BadStoreUrl(
            "the PostgreSQL driver is not installed; in the clone: pip install '.[postgres]'"
        ) from error
    return PostgresStore(url, lanes=lanes, makes=makes)

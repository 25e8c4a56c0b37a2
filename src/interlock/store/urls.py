"""From a store URL to a store: `sqlite:///path`, `postgresql://…`, `memory:`."""

from __future__ import annotations

from interlock.store.contract import Store


class BadStoreUrl(ValueError):
    """The URL names no store that Interlock knows."""


def store_for(url: str, *, lanes: int = 2) -> Store:
    """A store, not yet opened. Drivers are imported only for the store that is asked for."""
    if url.startswith("sqlite:///"):
        from interlock.store.sqlite import SqliteStore

        return SqliteStore(url.removeprefix("sqlite:///"))
    if url.startswith(("postgresql://", "postgres://")):
        return _postgres(url, lanes)
    if url in ("memory:", "memory://"):
        from interlock.store.memory import MemoryStore

        return MemoryStore()
    raise BadStoreUrl(
        f"{url!r} is not a store URL; use sqlite:///path/to/file.db, "
        "postgresql://user@host/database or memory:"
    )


def _postgres(url: str, lanes: int) -> Store:
    try:
        from interlock.store.postgres import PostgresStore
    except ImportError as error:
        raise BadStoreUrl(
            "the PostgreSQL driver is not installed; in the clone: pip install '.[postgres]'"
        ) from error
    return PostgresStore(url, lanes=lanes)

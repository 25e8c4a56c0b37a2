"""The SQLite store, the embedded default: one file, one writer at a time, any number of processes on one machine."""

from __future__ import annotations

from interlock.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]

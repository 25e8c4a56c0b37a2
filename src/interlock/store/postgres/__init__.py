"""The PostgreSQL store: any number of servers on one database. READ COMMITTED, explicit row locks, unique keys."""

from __future__ import annotations

from interlock.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]

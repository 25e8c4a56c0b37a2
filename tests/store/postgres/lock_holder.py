"""Another client of the database, which holds locks while a server wants them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import Any

from interlock.kernel.kernel import KernelLimits
from tests.harness.store_places import PostgresPlace

SHORT = KernelLimits(acquire_seconds=0.4)


@contextlib.asynccontextmanager
async def holding(place: PostgresPlace, *statements: str) -> AsyncGenerator[Any]:
    """Another client of the database with a transaction open after these statements."""
    connection = await place.connect()
    try:
        await connection.execute("BEGIN")
        for statement in statements:
            await connection.execute(statement)
        yield connection
    finally:
        await connection.close()

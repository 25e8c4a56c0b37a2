"""Making a store stand still for a while: a lock that nobody gets past, or a process that is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncGenerator, Generator
from importlib import import_module
from pathlib import Path
from typing import Any

from interlock.drills.place import PlaceUnfit

SQLITE = "sqlite:///"
_POSTGRES = ("postgresql://", "postgres://")
_LOCK_SECONDS_MAX = 10


def check_blockable(store: str) -> None:
    """Raise `PlaceUnfit` for a store that only one process can see."""
    if not store.startswith((SQLITE, *_POSTGRES)):
        raise PlaceUnfit(f"{store!r} cannot be blocked; name a sqlite:/// or postgresql:// store")


@contextlib.asynccontextmanager
async def blocked(store: str, pid: int | None = None) -> AsyncGenerator[str]:
    """Nobody can write to the store inside the block; gives how that was done."""
    if pid is not None:
        with _stopped(pid) as count:
            yield f"{count} processes stopped"
    elif store.startswith(SQLITE):
        with _file_locked(store.removeprefix(SQLITE)):
            yield "the file's writer lock held"
    else:
        check_blockable(store)
        async with _tables_locked(store):
            yield "the tables of admission locked"


@contextlib.contextmanager
def _file_locked(path: str) -> Generator[None]:
    apsw: Any = import_module("apsw")
    holder = apsw.Connection(path)
    try:
        holder.set_busy_timeout(_LOCK_SECONDS_MAX * 1000)
        holder.execute("BEGIN IMMEDIATE")
        yield
        holder.execute("ROLLBACK")
    finally:
        holder.close()


@contextlib.asynccontextmanager
async def _tables_locked(url: str) -> AsyncGenerator[None]:
    asyncpg: Any = import_module("asyncpg")
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("BEGIN")
        async with asyncio.timeout(_LOCK_SECONDS_MAX):
            await connection.execute("LOCK TABLE gates, runs IN ACCESS EXCLUSIVE MODE")
        yield
        await connection.execute("ROLLBACK")
    finally:
        await connection.close()


@contextlib.contextmanager
def _stopped(pid: int) -> Generator[int]:
    """Stop a process and all below it; they go on whatever happens in the block."""
    stopped: list[int] = []
    below = [pid]
    try:
        for each in below:  # grows while it is read: whoever is stopped has no more children than these
            _send(each, signal.SIGSTOP)
            stopped.append(each)
            below += _children(each)
        yield len(stopped)
    finally:
        for each in reversed(stopped):
            with contextlib.suppress(PlaceUnfit):
                _send(each, signal.SIGCONT)


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError) as error:
        raise PlaceUnfit(f"process {pid} cannot be signalled: {error.strerror}; check --pid") from error


def _children(pid: int) -> list[int]:
    listed: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            listed += map(int, path.read_text().split())
    return listed

"""The database's log cut at any byte while a claim commits: the grant is open or spent, never both, never twice."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.kernel.ids import new_id
from interlock.kernel.kernel import Kernel
from interlock.kernel.record import from_micros
from interlock.rooms.grants import queries
from interlock.rooms.grants.claims import ClaimGrant, NotClaimed
from interlock.rooms.grants.model import GRANTS
from interlock.rooms.grants.rules import IssueGrant
from interlock.rooms.identity.model import Caller
from interlock.rooms.identity.principals import EnsureLocalPerson
from interlock.store.sqlite import SqliteStore
from tests.harness.soak import dose
from tests.harness.store_places import serving

LOCAL = Caller(tenant="default", principal="local:test")
FRAME = 4096 + 24
HEADER = 32


@pytest.fixture
def torn(tmp_path: Path) -> tuple[Path, str]:
    """A database file and its log, copied at the moment after a claim committed; and the grant that it spent."""
    source, copy = tmp_path / "source.db", tmp_path / "copy.db"

    async def make() -> str:
        async with serving(SqliteStore(source)) as server:
            await server.kernel.run(EnsureLocalPerson(tenant="default", name=LOCAL.principal))
            issued = await server.kernel.run(IssueGrant(caller=LOCAL, grant_id=new_id("gnt"), task="race"))
            store: Any = server.store
            store._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            assert isinstance(await _claim(server.kernel, "first"), msgspec.Struct)
            shutil.copy(source, copy)
            shutil.copy(f"{source}-wal", f"{copy}-wal")
            return issued.id

    return copy, asyncio.run(make())


def test_a_log_cut_anywhere_leaves_the_grant_open_or_spent_and_nothing_between(
    torn: tuple[Path, str], tmp_path: Path
) -> None:
    copy, grant_id = torn
    log = Path(f"{copy}-wal").read_bytes()
    states = [
        asyncio.run(_recover(copy, log[:size], tmp_path / f"{size}.db", grant_id)) for size in _cuts(len(log))
    ]

    assert set(states) == {"open", "spent"}
    # Whole frames of a commit make it durable; anything less is as if it had never been.
    assert states[-1] == "spent"
    assert states == sorted(states)


async def _recover(copy: Path, log: bytes, path: Path, grant_id: str) -> str:
    """Open what a crash left, hold it against the law, claim again, and say what the grant was."""
    shutil.copy(copy, path)
    Path(f"{path}-wal").write_bytes(log)
    async with serving(SqliteStore(path)) as server:
        grant = await server.store.get(GRANTS, "default", grant_id)
        assert grant is not None
        now = from_micros(0)
        before = await queries.read_ledger(server.store, "default", now=now, before=None, limit=10)
        again = await _claim(server.kernel, "second")
        after = await queries.read_ledger(server.store, "default", now=now, before=None, limit=10)
    assert (before.uneven, after.uneven) == ((), ())
    assert (grant.state.value, grant.used, before.claimed) in (("open", 0, 0), ("spent", 1, 1))
    assert isinstance(again, NotClaimed) == (grant.state.value == "spent")
    assert after.claimed == 1
    return grant.state.value


async def _claim(kernel: Kernel, execution_id: str) -> object:
    return await kernel.run(
        ClaimGrant(caller=LOCAL, task="race", args=msgspec.Raw(b"{}"), execution_id=execution_id)
    )


def _cuts(size: int) -> list[int]:
    """Every edge of a frame with its neighbours, and bytes between; all of them if there is time for it."""
    edges = {
        HEADER + frame * FRAME + near for frame in range(size // FRAME + 1) for near in (-1, 0, 1, 24, 25)
    }
    spread = range(0, size, max(1, size // dose(20)))
    return sorted(cut for cut in {*edges, *spread, size - 1, size} if 0 <= cut <= size)

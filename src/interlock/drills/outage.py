"""`drill outage`: the store is stopped while clients start runs under idempotency keys.

Clients must get 503 in bounded time; and once the store is back, every key must be exactly one run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from math import ceil
from pathlib import Path
from time import perf_counter
from typing import Any

from interlock.drills.place import Caller, Place, PlaceUnfit, deployed, serving
from interlock.drills.report import Answer, Check, Report, Steps, Tell, phase, report, tell_nobody
from interlock.rooms.identity.model import PrincipalKind, Role
from interlock.rooms.identity.principals import RemovePrincipal, RevokeKey
from interlock.service.operator import IssuedKey, issue_key
from interlock.service.service import open_service
from interlock.service.settings import settings_from

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
        for each in below:  # grows while it is read; a stopped process starts no more children
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


RECOVERY_SECONDS_MAX = 30.0
_ANSWER_SECONDS_MAX = 15.0
_PAUSE_SECONDS = 0.2
_TOO_SHORT = "no caller was answered in {:.1f} s; let it last longer, with --lasting"


async def drill_outage(
    store: str | None,
    *,
    url: str | None = None,
    pid: int | None = None,
    clients: int = 20,
    seconds: float = 5,
    tell: Tell = tell_nobody,
) -> Report:
    """Play it on `store` and the server at `url`; on a temporary store or server for what is not named."""
    _check_named(store, url)
    steps = Steps(tell, ceil(seconds) + 2 * clients)
    steps.begin("a server is started")
    async with _staged(store, url) as (place, named):
        agent = await place.caller("agent", "agent", ["submit"])
        workflow = f"drill-{secrets.token_hex(4)}"
        await place.admin.surely("PUT", "limits/tenant", {"max_concurrent_runs": clients + 1})
        crowd = [_Client(agent, workflow, f"{workflow}-{n}") for n in range(clients)]
        before = await agent.call("POST", f"workflows/{workflow}/runs", {}, key=f"{workflow}-before")
        during, lasted, recovery = await _played(crowd, blocked(named, pid), seconds, steps)
        steps.begin("every client repeats its call")
        repeats = await asyncio.gather(*(client.repeat() for client in crowd))
        steps.done(clients)
        checks = [
            Check(claim="before: a start is admitted", held=before.status == 201, seen=str(before.status)),
            *_checked_outage(during, lasted),
            *_checked_recovery(crowd, repeats, recovery),
            await _checked_runs(place, workflow, clients + 1),
        ]
        for client in crowd:
            await client.end()
        await _end(agent, before)
        phases = [phase("during the outage", during), phase("repeats after it", repeats)]
        where = f"{place.url} on {named.partition('@')[2] or named}"
        return report("outage", where, phases, checks, left_behind=await place.clean_up())


async def _played(
    crowd: list[_Client], outage: AbstractAsyncContextManager[str], seconds: float, steps: Steps
) -> tuple[list[Answer], float, float]:
    """The answers during the outage, how many seconds it lasted, and how many the clients then took to recover."""
    until = asyncio.Event()
    async with outage:
        began = perf_counter()
        steps.begin("the store is blocked")
        trying = [asyncio.create_task(client.start(until)) for client in crowd]
        await _sleep(seconds, steps)
        during = [answer for client in crowd for answer in client.answers]
        ended = perf_counter()
    until.set()
    steps.begin("the store is back: every client tries again")
    for each in trying:
        each.add_done_callback(lambda _: steps.done())
    await asyncio.wait(trying, timeout=RECOVERY_SECONDS_MAX)
    return during, ended - began, perf_counter() - ended


async def _sleep(seconds: float, steps: Steps) -> None:
    """Wait, and count each second."""
    until = perf_counter() + seconds
    while (left := until - perf_counter()) > 0:
        await asyncio.sleep(min(1.0, left))
        steps.done()


def _check_named(store: str | None, url: str | None) -> None:
    if store:
        check_blockable(store)
    elif url:
        raise PlaceUnfit("name the store that the server at --url uses with --store; it will be blocked")


class _Client:
    """Starts one run under one key, again and again until it is admitted."""

    def __init__(self, agent: Caller, workflow: str, key: str) -> None:
        self._agent = agent
        self._path = f"workflows/{workflow}/runs"
        self._key = key
        self.answers: list[Answer] = []
        self.admitted: Answer | None = None

    async def start(self, recovered: asyncio.Event) -> None:
        """Come back when told to, or sooner once the store is back."""
        while self.admitted is None:
            answer = await self.repeat()
            if answer.status == 201:
                self.admitted = answer
            elif not recovered.is_set():
                self.answers.append(answer)
                wait = (answer.field("retry_after_ms") or 1000 * _PAUSE_SECONDS) / 1000
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(recovered.wait(), wait)
            else:
                await asyncio.sleep(_PAUSE_SECONDS)

    async def repeat(self) -> Answer:
        """Ask once, under the same key."""
        return await self._agent.call("POST", self._path, {}, key=self._key)

    async def end(self) -> None:
        if self.admitted is not None:
            await _end(self._agent, self.admitted)


async def _end(agent: Caller, started: Answer) -> None:
    path = f"workflow-runs/{started.field('run_id')}/complete"
    await agent.call("POST", path, {"fence": started.field("fence")})


def _checked_outage(during: list[Answer], lasted: float) -> list[Check]:
    codes = {answer.status for answer in during}
    slowest = max((answer.seconds for answer in during), default=0.0)
    told = all(answer.field("retry_after_ms") for answer in during)
    return [
        Check(
            claim="outage: told as 503 and nothing else",
            held=codes == {503} if during else None,
            seen=f"{sorted(codes)} in {lasted:.1f} s" if codes else _TOO_SHORT.format(lasted),
        ),
        Check(claim="outage: every answer says when to come back", held=told if during else None),
        Check(
            claim="outage: answered in bounded time",
            held=slowest <= _ANSWER_SECONDS_MAX if during else None,
            seen=f"{slowest:.1f} s" if during else "",
        ),
    ]


def _checked_recovery(crowd: list[_Client], repeats: list[Answer], recovery: float) -> list[Check]:
    admitted = [client.admitted.field("run_id") for client in crowd if client.admitted is not None]
    again = [answer.field("run_id") for answer in repeats]
    return [
        Check(
            claim="recovery: every client was admitted",
            held=len(admitted) == len(crowd),
            seen=f"{len(admitted)} in {recovery:.1f} s",
        ),
        Check(claim="recovery: a repeated key is the same run", held=again == admitted),
    ]


async def _checked_runs(place: Place, workflow: str, wanted: int) -> Check:
    count, cursor = 0, ""
    while cursor is not None:
        page = f"workflow-runs?workflow={workflow}&limit=200{cursor and f'&cursor={cursor}'}"
        found = await place.admin.surely("GET", page)
        count, cursor = count + len(found["items"]), found["next_cursor"]
    return Check(claim="recovery: one run for each key", held=count == wanted, seen=f"{count} of {wanted}")


@contextlib.asynccontextmanager
async def _staged(store: str | None, url: str | None) -> AsyncGenerator[tuple[Place, str]]:
    """A throw-away tenant on the store, and a server on it: the one that is named, or one of the drill's own."""
    folder = Path(tempfile.mkdtemp(prefix="interlock-drill-"))
    named = _by_whole_path(store) if store else f"{SQLITE}{folder}/interlock.db"
    try:
        async with (
            _tenant_key(named, makes_store=store is None) as issued,
            contextlib.AsyncExitStack() as stack,
        ):
            address = url or stack.enter_context(serving(named, folder))["url"]
            async with deployed(address, issued.key) as place:
                limit = "limits/tenant"
                place.undo("its tenant's limit", lambda: place.admin.surely("DELETE", limit))
                yield place, named
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _by_whole_path(store: str) -> str:
    """The store as the drill's server finds it too, which runs in a folder of its own."""
    return f"{SQLITE}{Path(store.removeprefix(SQLITE)).absolute()}" if store.startswith(SQLITE) else store


@contextlib.asynccontextmanager
async def _tenant_key(store: str, *, makes_store: bool) -> AsyncGenerator[IssuedKey]:
    """The admin's key of a temporary tenant; its principal is forgotten at the end."""
    tenant, name = f"drill-{secrets.token_hex(4)}", "drill"
    settings = settings_from({}, store=store)
    async with open_service(settings, sweeping=False, makes_store=makes_store) as service:
        issued = await issue_key(
            service, name, kind=PrincipalKind.PERSON, roles=(Role.ADMIN, Role.OPERATE), tenant=tenant
        )
    try:
        yield issued
    finally:
        async with open_service(settings, sweeping=False) as service:
            await service.kernel.run(RevokeKey(tenant=tenant, key_id=issued.key_id, principal=name))
            await service.kernel.run(RemovePrincipal(tenant=tenant, name=name))

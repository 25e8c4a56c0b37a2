"""Where a drill runs: a temporary server on a temporary store, or a named deployment.

Before a drill makes anything there, it registers the undo with `Place.undo`, so that it is removed whatever happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import ssl
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

from interlock.drills.report import Answer

_LINE_BYTES_MAX = 64 * 1024

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


POLICY = """
version: v1
default: deny
rules:
  - {id: drill, when: {topic: "drill.**"}, decision: require_human}
"""
ANSWER_SECONDS_MAX = 60.0
_STOP_SECONDS_MAX = 30


class PlaceUnfit(Exception):
    """The drill cannot be played here; the message says why, and what would help."""


class Caller:
    """A principal with a key."""

    def __init__(self, wire: Wire, key: str) -> None:
        self._wire = wire
        self._headers = {"authorization": f"Bearer {key}"}

    async def call(self, method: str, path: str, body: Any = None, *, key: str | None = None) -> Answer:
        """Send one request below `/api/v1`; no answer is an answer with status 0."""
        headers = self._headers if key is None else {**self._headers, "idempotency-key": key}
        return await self._wire.call(method, f"/api/v1/{path}", headers, body, ANSWER_SECONDS_MAX)

    async def surely(self, method: str, path: str, body: Any = None) -> Any:
        """The document of a call that must succeed."""
        answer = await self.call(method, path, body)
        if not 200 <= answer.status < 300:
            if answer.status == 0:
                raise PlaceUnfit(f"no answer to a call about {_about(path)}; does the server still run?")
            detail = answer.field("detail") or f"status {answer.status}"
            raise PlaceUnfit(f"the server refused a call about {_about(path)}: {detail}")
        return answer.document


def _about(path: str) -> str:
    """What a call is about, in a word that the command line has, too."""
    return path.partition("?")[0].partition("/")[0].replace("workflow-", "").replace("api-", "")


class Place:
    """A deployment, its admin, and what must be taken back."""

    def __init__(self, url: str, wire: Wire, admin_key: str) -> None:
        self.url = url
        self.admin = Caller(wire, admin_key)
        self._wire = wire
        self._mark = secrets.token_hex(4)
        self._undo: list[tuple[str, Callable[[], Awaitable[object]]]] = []

    async def caller(self, name: str, kind: str, roles: Sequence[str], groups: Sequence[str] = ()) -> Caller:
        """Make a principal with a key for the drill; at the end the key is revoked and the principal forgotten."""
        principal = f"drill-{self._mark}-{name}"
        body = {"kind": kind, "roles": list(roles), "groups": list(groups)}
        issued = await self.admin.surely("POST", f"principals/{principal}/keys", body)
        path = f"api-keys/{issued['key_id']}/revoke"
        self.undo(principal, lambda: self.admin.surely("DELETE", f"principals/{principal}"))
        self.undo(f"the key of {principal}", lambda: self.admin.surely("POST", path, {}))
        return Caller(self._wire, str(issued["key"]))

    def undo(self, what: str, step: Callable[[], Awaitable[object]]) -> None:
        """Remember how to take something back; the last thing made goes first."""
        self._undo.append((what, step))

    async def warm_up(self, connections: int) -> None:
        """Open connections, so that a burst is one."""
        await self._wire.warm_up(connections)

    async def clean_up(self) -> list[str]:
        """Take everything back; returns what could not be."""
        left: list[str] = []
        while self._undo:
            what, step = self._undo.pop()
            try:
                await step()
            except PlaceUnfit as error:
                left.append(f"{what}: {error}")
        return left


@contextlib.asynccontextmanager
async def deployed(url: str, admin_key: str) -> AsyncGenerator[Place]:
    """A deployment that runs already."""
    wire = Wire(url)
    place = Place(url.rstrip("/"), wire, admin_key)
    try:
        yield place
    finally:
        await place.clean_up()
        await wire.close()


@contextlib.asynccontextmanager
async def temporary() -> AsyncGenerator[Place]:
    """A server of the drill's own on a temporary store; nothing of either is left."""
    folder = Path(tempfile.mkdtemp(prefix="interlock-drill-"))
    try:
        (folder / "policy.yaml").write_text(POLICY)
        store = f"sqlite:///{folder}/interlock.db"
        with serving(store, folder, "--policy", str(folder / "policy.yaml")) as announced:
            async with deployed(announced["url"], announced["admin_key"]) as place:
                yield place
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def serving(store: str, folder: Path, *options: str) -> Generator[dict[str, Any]]:
    """`interlock serve` on `store` as a process of its own; gives what it announced."""
    command = [
        sys.executable,
        "-m",
        "interlock",
        "serve",
        "--port",
        "0",
        "--json",
        "--store",
        store,
        *options,
    ]
    env = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(  # noqa: S603 - this very interpreter
            command, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, cwd=folder, env=env
        )
    try:
        yield _announced(server, folder / "server.log")
    finally:
        _stop(server)


def _announced(server: subprocess.Popen[bytes], log: Path) -> dict[str, Any]:
    line = server.stdout.readline() if server.stdout else b""
    if not line:
        said = log.read_text(errors="replace").strip().splitlines()[-3:]
        raise PlaceUnfit(f"the drill's server did not start: {' '.join(said) or 'it said nothing'}")
    return json.loads(line)


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(_STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
    if server.stdout is not None:
        server.stdout.close()


class Wire:
    """Plain HTTP to one service over kept connections, as many as there are calls under way.

    Many callers in one process must not be slower than the service, or their times would measure the callers. So this
    knows no more of HTTP than a drill needs.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        is_secret = parts.scheme == "https"
        self._host = parts.hostname or "127.0.0.1"
        self._port = parts.port or (443 if is_secret else 80)
        self._prefix = parts.path.rstrip("/")
        self._trust = ssl.create_default_context() if is_secret else None
        self._idle: list[Stream] = []

    async def warm_up(self, connections: int) -> None:
        """Open this many connections, so that a burst does not wait for connections."""
        missing = max(0, connections - len(self._idle))
        opened = await asyncio.gather(*(self._dial() for _ in range(missing)), return_exceptions=True)
        self._idle += [stream for stream in opened if not isinstance(stream, BaseException)]

    async def call(
        self, method: str, path: str, headers: dict[str, str], body: Any, seconds_max: float
    ) -> Answer:
        """One call; no answer in time, or none at all, is an answer with status 0."""
        started = perf_counter()
        try:
            async with asyncio.timeout(seconds_max):
                status, raw = await self._exchange(self._encoded(method, path, headers, body))
        except (OSError, TimeoutError, EOFError, ValueError):
            return Answer(status=0, seconds=perf_counter() - started)
        seconds = perf_counter() - started
        with contextlib.suppress(ValueError):
            return Answer(status=status, seconds=seconds, document=json.loads(raw))
        return Answer(status=status, seconds=seconds)

    async def close(self) -> None:
        """Hang up."""
        for _, writer in self._idle:
            writer.close()
        self._idle.clear()

    async def _dial(self) -> Stream:
        return await asyncio.open_connection(self._host, self._port, ssl=self._trust, limit=_LINE_BYTES_MAX)

    async def _exchange(self, request: bytes) -> tuple[int, bytes]:
        stream = self._idle.pop() if self._idle else await self._dial()
        reader, writer = stream
        try:
            writer.write(request)
            status, headers = await _head(reader)
            body = await _body(reader, headers)
        except BaseException:
            writer.close()
            raise
        if headers.get("connection", "").lower() == "close":
            writer.close()
        else:
            self._idle.append(stream)
        return status, body

    def _encoded(self, method: str, path: str, headers: dict[str, str], body: Any) -> bytes:
        content = b"" if body is None else json.dumps(body).encode()
        lines = [
            f"{method} {self._prefix}{path} HTTP/1.1",
            f"host: {self._host}:{self._port}",
            f"content-length: {len(content)}",
            *(["content-type: application/json"] if content else []),
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + content


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip("\r\n").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return int(first.split(" ", 2)[1]), {name.strip().lower(): value.strip() for name, _, value in pairs}


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if "chunked" not in headers.get("transfer-encoding", ""):
        return await reader.readexactly(int(headers.get("content-length", "0")))
    chunks: list[bytes] = []
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        chunks.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readuntil(b"\r\n")
    return b"".join(chunks)

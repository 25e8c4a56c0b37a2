"""Writes into docs/ARCHITECTURE.md which files one approve over HTTP on SQLite passes through.

The request is really sent: to granian on a temporary store, as `interlock serve` runs it. The interpreter reports which
of our functions are called meanwhile. Background work is left out: sweeps, relays, the check of budgets, and the
store looking for commits of other processes.
"""

from __future__ import annotations

import ast
import asyncio
import json
import sys
import tempfile
import threading
from collections.abc import AsyncGenerator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from interlock.api.asgi import InterlockApp
from interlock.api.server import granian
from interlock.kernel.kernel import Kernel
from interlock.rooms.identity.model import EVERY_ROLE, PrincipalKind
from interlock.rooms.policy.parser import parse_policy
from interlock.rooms.policy.rules import ActivatePolicy
from interlock.service.logs import Log
from interlock.service.operator import issue_key
from interlock.service.service import Service, open_service
from interlock.service.settings import TENANT_DEFAULT, settings_from
from interlock.store.sqlite.store import SqliteStore

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "interlock"
PAGE = ROOT / "docs" / "ARCHITECTURE.md"
BEGIN = "<!-- the way of an approve: written by `make docs` -->"
END = "<!-- end of the way of an approve -->"

POLICY = """
version: v1
rules:
  - {id: ask-for-payments, when: {topic: finance.pay}, decision: require_human}
"""
_START_SECONDS = 30.0
# These loops run by themselves, not for a request.
_LOOPS = (
    Kernel._reap.__code__,  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    SqliteStore._watch.__code__,  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
)


def main() -> None:
    """Write the list into the page."""
    PAGE.write_text(render())
    print(f"wrote {PAGE.relative_to(Path.cwd()) if PAGE.is_relative_to(Path.cwd()) else PAGE}")


def render() -> str:
    """The page with the current list of files between its markers."""
    files, with_key = asyncio.run(files_of_an_approve())
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    more = " and ".join(f"`{file}`" for file in with_key if file not in files)
    lines = [
        BEGIN,
        f"One approve calls functions in **{len(files)} files** of `src/interlock`, in this order:",
        "",
        "| | File | What it is |",
        "|---|---|---|",
        *(f"| {number} | `{file}` | {_purpose(file)} |" for number, file in enumerate(files, start=1)),
        "",
        f"With an `Idempotency-Key` it also passes through {more}.",
        END,
    ]
    return before + "\n".join(lines) + after


async def files_of_an_approve() -> tuple[list[str], list[str]]:
    """The files of ours in which `POST /api/v1/approvals/{job_id}/approve` calls a function, in the order of calls.

    First without and then with an idempotency key.
    """
    calls = Calls()
    with tempfile.TemporaryDirectory() as folder, calls.watched():
        socket = f"{folder}/socket"
        settings = settings_from({}, store=f"sqlite:///{folder}/store.db", uds=socket, relay=False)
        async with open_service(settings, sweeping=False) as service:
            await service.kernel.run(ActivatePolicy.of(parse_policy(POLICY), POLICY, tenant=TENANT_DEFAULT))
            agent = await issue_key(service, "payer", kind=PrincipalKind.AGENT, roles=EVERY_ROLE)
            person = await issue_key(service, "mia", kind=PrincipalKind.PERSON, roles=EVERY_ROLE)
            app = InterlockApp(settings, Log(level="error"))
            async with _served(app, service):
                # The first call fills caches and imports modules; it is not counted.
                await _approve(socket, calls, agent.key, person.key, key="first")
                plain = await _approve(socket, calls, agent.key, person.key)
                with_key = await _approve(socket, calls, agent.key, person.key, key="second")
    return plain, with_key


@asynccontextmanager
async def _served(app: InterlockApp, service: Service) -> AsyncGenerator[None]:
    """The application behind the server that `interlock serve` uses."""
    server = granian(app, service.settings)
    with app.answering(service):
        serving = asyncio.create_task(server.serve())
        try:
            async with asyncio.timeout(_START_SECONDS):
                while not Path(service.settings.uds).exists():  # noqa: ASYNC110, ASYNC240 (a tool with one caller)
                    await asyncio.sleep(0.01)
            yield
        finally:
            server.stop()
            await serving


async def _approve(
    socket: str, calls: Calls, agent: str, person: str, *, key: str | None = None
) -> list[str]:
    """Submit a job that waits for a person, and approve it. Returns the files that the approve passed through."""
    job = await _post(socket, agent, "jobs", {"topic": "finance.pay", "payload": {"cents": 1}})
    with calls.recorded() as files:
        await _post(socket, person, f"approvals/{job['id']}/approve", {"job_hash": job["job_hash"]}, key=key)
    return files


class Calls:
    """Records which of our files had a function called, on this thread and on threads that start meanwhile."""

    def __init__(self) -> None:
        self._files: list[str] | None = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        before = sys.getprofile()
        sys.setprofile(self._called)
        threading.setprofile(self._called)
        try:
            yield
        finally:
            threading.setprofile(None)
            sys.setprofile(before)

    @contextmanager
    def recorded(self) -> Iterator[list[str]]:
        """The files, each once, in the order of their first call inside the block."""
        self._files = []
        try:
            yield self._files
        finally:
            self._files = None

    def _called(self, frame: FrameType, event: str, _: Any) -> None:
        files = self._files
        if files is None or event != "call":
            return
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(PACKAGE) and not _is_under(frame, _LOOPS):
            file = path.relative_to(PACKAGE).as_posix()
            if file not in files:
                files.append(file)


def _is_under(frame: FrameType | None, loops: Collection[CodeType]) -> bool:
    while frame is not None:
        if frame.f_code in loops:
            return True
        frame = frame.f_back
    return False


async def _post(
    socket: str, who: str, path: str, body: dict[str, Any], *, key: str | None = None
) -> dict[str, Any]:
    """One POST over HTTP/1.1, on a connection of its own."""
    content = json.dumps(body).encode()
    headers = {
        "host": "localhost",
        "authorization": f"Bearer {who}",
        "content-type": "application/json",
        "content-length": str(len(content)),
        "connection": "close",
        **({"idempotency-key": key} if key else {}),
    }
    lines = [
        f"POST /api/v1/{path} HTTP/1.1",
        *(f"{name}: {value}" for name, value in headers.items()),
        "",
        "",
    ]
    reader, writer = await asyncio.open_unix_connection(socket)
    writer.write("\r\n".join(lines).encode() + content)
    answer = await reader.read()
    writer.close()
    head, _, answered = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 2"):
        raise RuntimeError(f"{path}: {answer.decode()}")
    return json.loads(answered)


def _purpose(file: str) -> str:
    """The first sentence of the file's docstring, in one line."""
    text = ast.get_docstring(ast.parse((PACKAGE / file).read_text())) or ""
    return text.partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")


if __name__ == "__main__":
    main()

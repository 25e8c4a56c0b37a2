"""Where scenes are played: a server process on a temporary store, with keys for people and agents."""

from __future__ import annotations

import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import httpx2

from interlock.demo.story import Answer

T = TypeVar("T")

START_SECONDS_MAX = 60
ANSWER_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 30
SERVE = ("serve", "--port", "0", "--json", "--retry-base-seconds", "0.2", "--sweep-seconds", "0.2")
_LOG_LINES = 15


class DemoBroken(Exception):
    """The server did not start, or a client got no answer at all."""


class Actor:
    """A person or an agent, with a key and a connection of its own."""

    def __init__(self, server: DemoServer, name: str, key: str) -> None:
        self.name = name
        self.key = key
        self._server = server
        self._client = httpx2.Client(
            headers={"authorization": f"Bearer {key}"}, timeout=ANSWER_SECONDS_MAX, verify=server.trust
        )

    def get(self, path: str) -> Answer:
        """Ask."""
        return _answer(self._client.get(self._url(path)))

    def post(self, path: str, body: dict[str, Any] | None = None, *, key: str | None = None) -> Answer:
        """Change something, under an idempotency key if one is given."""
        headers = {"idempotency-key": key} if key else {}
        return _answer(self._client.post(self._url(path), json=body or {}, headers=headers))

    def put(self, path: str, body: dict[str, Any]) -> Answer:
        """Set something."""
        return _answer(self._client.put(self._url(path), json=body))

    def put_policy(self, text: str) -> Answer:
        """Put a policy in force."""
        headers = {"content-type": "application/yaml"}
        return _answer(self._client.put(self._url("policy"), content=text.encode(), headers=headers))

    def approve(self, job_id: str) -> Answer:
        """Say yes."""
        return self.post(f"approvals/{job_id}/approve", {"reason": "looks right"})

    def reject(self, job_id: str) -> Answer:
        """Say no."""
        return self.post(f"approvals/{job_id}/reject", {"reason": "not like this"})

    def connect(self) -> None:
        """Open the connection, so that a race starts at the same line for all."""
        self._client.get(f"{self._server.url}/healthz")

    def close(self) -> None:
        """Hang up."""
        self._client.close()

    def _url(self, path: str) -> str:
        return f"{self._server.url}/api/v1/{path}"


class DemoServer:
    """One server on one temporary store. `with DemoServer() as server:` leaves no process and no folder behind."""

    def __init__(self) -> None:
        self.url = ""
        self.folder = Path(tempfile.mkdtemp(prefix="interlock-demo-"))
        self.trust = ssl.create_default_context()
        self._process: subprocess.Popen[str] | None = None
        self._actors: list[Actor] = []
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> DemoServer:
        """Start the server; its first admin key is how everybody else gets one."""
        try:
            self._seat("admin", str(self.start()["admin_key"]))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Leave nothing behind, whatever happened."""
        self.close()

    @property
    def admin(self) -> Actor:
        """Whom the server gave its first key."""
        return self._actors[0]

    @property
    def pid(self) -> int | None:
        """The server's process, while it runs."""
        return self._process.pid if self._process else None

    @property
    def is_cleared(self) -> bool:
        """Whether nothing is left: no process and no folder."""
        return self._process is None and not self._processes and not self.folder.exists()

    def start(self) -> dict[str, Any]:
        """Start the server on the temporary store; returns what it announced."""
        store = f"sqlite:///{self.folder / 'interlock.db'}"
        with (self.folder / "server.log").open("a") as log:
            self._process = subprocess.Popen(  # noqa: S603  # this interpreter, and no word from outside
                [sys.executable, "-m", "interlock", *SERVE, "--store", store],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=self.folder,
                env=_clean_env(),
                start_new_session=True,
            )
        announced = _announcement(self._process)
        if announced is None:
            raise DemoBroken(f"the server did not start; its log ends:\n{self.log_end()}")
        self.url = str(announced["url"])
        return announced

    def kill(self) -> None:
        """End the server as a power cut would: SIGKILL, no chance to finish anything."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.communicate(timeout=STOP_SECONDS_MAX)
            self._process = None

    def close(self) -> None:
        """End everything and remove the folder."""
        for actor in self._actors:
            self.kill_process(actor)
            actor.close()
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def add_principal(
        self, name: str, *, kind: str = "person", roles: Sequence[str] = ("review",), **more: Any
    ) -> Actor:
        """Make a principal with a key; `more` are groups and owner."""
        made = self.admin.post(f"principals/{name}/keys", {"kind": kind, "roles": list(roles), **more})
        if made.status != 201:
            raise DemoBroken(f"no key for {name}: {made.status} {made.word}")
        return self._seat(name, made.body["key"])

    def start_process(self, actor: Actor, part: str) -> None:
        """Play a part of `processes.py` as this actor, in a process of its own."""
        self.kill_process(actor)
        with (self.folder / f"{actor.name}.log").open("a") as log:
            self._processes[actor.name] = subprocess.Popen(  # noqa: S603  # this interpreter and our own modules
                [sys.executable, "-m", "interlock.demo.processes", part],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=_clean_env() | {"INTERLOCK_URL": self.url, "INTERLOCK_KEY": actor.key},
                start_new_session=True,
            )

    def kill_process(self, actor: Actor) -> None:
        """SIGKILL the process that runs as this actor, if there is one."""
        process = self._processes.pop(actor.name, None)
        if process is not None:
            process.kill()
            process.wait(STOP_SECONDS_MAX)

    def is_running(self, actor: Actor) -> bool:
        """Whether a process runs as this actor."""
        process = self._processes.get(actor.name)
        return process is not None and process.poll() is None

    def at_once(self, calls: Sequence[Callable[[], T]]) -> list[T]:
        """Make every call from a thread of its own, all starting at the same moment."""
        start = threading.Barrier(len(calls))
        results: list[T | BaseException] = [DemoBroken("no answer in time")] * len(calls)

        def run(place: int, call: Callable[[], T]) -> None:
            try:
                start.wait(ANSWER_SECONDS_MAX)
                results[place] = call()
            except (httpx2.HTTPError, OSError, threading.BrokenBarrierError) as error:
                results[place] = error

        threads = [
            threading.Thread(target=run, args=(place, call), daemon=True) for place, call in enumerate(calls)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(ANSWER_SECONDS_MAX * 2)
        return [_got(result) for result in results]

    def log_end(self) -> str:
        """The last lines of the server's log."""
        path = self.folder / "server.log"
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        return "\n".join(lines[-_LOG_LINES:])

    def _seat(self, name: str, key: str) -> Actor:
        self._actors.append(Actor(self, name, key))
        return self._actors[-1]


def _clean_env() -> dict[str, str]:
    """This environment without what is meant for another Interlock."""
    return {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}


def _announcement(process: subprocess.Popen[str]) -> dict[str, Any] | None:
    """The first line that a starting server prints; None if it ends, or stays silent for too long."""
    patience = threading.Timer(START_SECONDS_MAX, process.kill)
    patience.start()
    try:
        line = process.stdout.readline() if process.stdout else ""
    finally:
        patience.cancel()
    return json.loads(line) if line.startswith("{") else None


def _answer(response: httpx2.Response) -> Answer:
    body: dict[str, Any] = response.json()
    word = body.get("code") if response.status_code >= 400 else body.get("outcome") or body.get("state")
    return Answer(
        status=response.status_code,
        word=str(word or "done"),
        body=body,
        raw=response.content,
        replayed=response.headers.get("idempotency-replayed") == "true",
    )


def _got(result: T | BaseException) -> T:
    if isinstance(result, BaseException):
        raise DemoBroken(f"a client got no answer: {result}")
    return result


PAYMENT = "finance.payment.execute"
REFUND = "finance.refund.execute"


def policy_text(*, asks_above_cents: int = 10_000) -> str:
    """The company's policy; `asks_above_cents` is what the third scene changes under a pending request."""
    text = resources.files("interlock.demo").joinpath("policy.yaml").read_text(encoding="utf-8")
    return text.replace("> 10000", f"> {asks_above_cents}")


class Company:
    """Mia owns the agent that pays; Noor and Omar are in finance, and so is she."""

    def __init__(self, server: DemoServer) -> None:
        self.server = server
        self.admin: Actor = server.admin
        applied = self.admin.put_policy(policy_text())
        if applied.status != 200:
            raise DemoBroken(f"the policy was refused: {applied.body}")
        self.mia = server.add_principal("mia", groups=["finance"])
        self.noor = server.add_principal("noor", groups=["finance"])
        self.omar = server.add_principal("omar", groups=["finance"])
        self.agent = server.add_principal("payer", kind="agent", roles=["submit"], owner="mia")

    def propose_payment(self, cents: int, *, key: str | None = None, to: str = "Acme Ltd") -> Answer:
        """The agent asks to make a payment."""
        return self.propose(PAYMENT, {"amount_cents": cents, "to": to}, key=key)

    def propose(self, topic: str, payload: dict[str, Any], *, key: str | None = None) -> Answer:
        """The agent asks to do something in production."""
        return self.agent.post("jobs", {"topic": topic, "env": "production", "payload": payload}, key=key)

"""A folder with tasks in it, for tests of `interlock exec`."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Literal

from tests.cli.terminal import Terminal
from tests.harness.server import clean_env

TASKS = """\
tasks:
  mark:
    command: [sh, -c, 'echo ran >> marks; echo out; echo err >&2; exit ${1:-0}', mark]
  cat: {command: cat}
  env: {command: [env], env: [SHOWN]}
  where: {command: pwd, cwd: sub}
  slow:
    command: [sh, -c, 'trap "echo stopped >> marks; exit 7" TERM; echo started >> marks; sleep 60 & wait']
    timeout: 50s
  late: {command: [sh, -c, 'sleep 60 & sleep 60'], timeout: 1s}
  gone: {command: ./gone.sh}
  flaky: {command: ./flaky.sh}
  signed: {command: "true", approval: {signed: true}}
  loose: {command: "true", approval: {required: false}}
"""


def granted(task_terminal: Terminal, task: str, *words: str) -> Any:
    """Issue a grant; returns it."""
    said = task_terminal("grant", task, *words, "--json")
    assert said.code == 0, said.err
    return said.json


def marks(task_terminal: Terminal) -> list[str]:
    """What the commands have left behind."""
    path = task_terminal.folder / "marks"
    return path.read_text().splitlines() if path.exists() else []


def start(task_terminal: Terminal, task: str) -> subprocess.Popen[bytes]:
    """Run a task in a process of its own, without waiting for it."""
    words = [sys.executable, "-m", "interlock.cli.main", "exec", task]
    return subprocess.Popen(words, cwd=task_terminal.folder, env=clean_env(), stdin=subprocess.DEVNULL)


def wait_for(task_terminal: Terminal, mark: str) -> None:
    """Return once a command has left this mark."""
    deadline = time.monotonic() + 120
    while mark not in marks(task_terminal):
        assert time.monotonic() < deadline, "the command did not start"
        time.sleep(0.02)


def effect_of(task_terminal: Terminal, execution: str) -> Any:
    """The record of what an execution did."""
    return call(task_terminal, "GET", f"effects/exec:{execution}")


def call(task_terminal: Terminal, method: Literal["GET", "POST"], path: str, body: Any = None) -> Any:
    """One call on the folder's store."""
    from interlock import Interlock

    store = f"sqlite:///{Path(task_terminal.folder) / '.interlock' / 'interlock.db'}"
    with Interlock(store=store) as client:
        return client.call(method, *path.split("/"), body=json.loads(json.dumps(body)) if body else None)

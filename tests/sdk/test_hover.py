"""What an editor shows when a user points at a name: the signature, and what it does, in the SDK's own words."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SERVER = Path(sys.executable).parent / "basedpyright-langserver"
PROGRAM = """\
from interlock import AsyncInterlock, Interlock

il = Interlock()
ail = AsyncInterlock()
il.submit("a.b")
il.gate("a.b")
il.once("refund:1", print, "x")
ail.once("refund:1", print, "x")
with il.lease("repo:a") as held:
    held.checkpoint(1)
    held.predecessor
with il.admit("nightly") as run:
    run.complete()
"""
SHOWN = {
    "il.submit": ("topic: str", "Propose an action.", "Raises `Denied`"),
    "il.gate": ("key: ", "Let a function run only when policy", "`Ambiguous`"),
    "il.once": ("action_id: str", "Run `function(*args, **kwargs)` once", "`NotDone`", "il.once(f"),
    "ail.once": ("Coroutine", "Run `function(*args, **kwargs)` once"),
    "il.lease": (
        "session: str | None = None",
        "Own a resource for a block",
        "Raises `Busy`",
        "held.checkpoint(",
    ),
    "il.admit": ("workflow: str", "Hold a slot of a workflow", "Raises `Full`"),
    "held.checkpoint": ("open_questions", "Record how far the work has come"),
    "held.predecessor": ("Predecessor | None", "Who had the resource before"),
    "run.complete": ("result", "End the run well"),
}


class LanguageServer:
    """A language server for one file, spoken to as an editor does."""

    def __init__(self, file: Path) -> None:
        self._file, self._number = file, 0
        self._process = subprocess.Popen([SERVER, "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        root = file.parent.as_uri()
        folders = [{"uri": root, "name": "folder"}]
        hover = {"textDocument": {"hover": {"contentFormat": ["markdown"]}}}
        self.ask(
            "initialize",
            {"processId": None, "rootUri": root, "workspaceFolders": folders, "capabilities": hover},
        )
        self._send({"method": "initialized", "params": {}})
        document = {"uri": file.as_uri(), "languageId": "python", "version": 1, "text": file.read_text()}
        self._send({"method": "textDocument/didOpen", "params": {"textDocument": document}})

    def hover(self, word: str) -> str:
        """What is shown at the end of the first such word."""
        lines = self._file.read_text().splitlines()
        place = next(
            number for number, line in enumerate(lines) if word in line.split("(")[0] or f" {word}(" in line
        )
        column = lines[place].index(word) + len(word) - 1
        shown = self.ask(
            "textDocument/hover",
            {"textDocument": {"uri": self._file.as_uri()}, "position": {"line": place, "character": column}},
        )
        return shown["contents"]["value"] if shown else ""

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        """Send a request and wait for its answer; what the server asks meanwhile is where Python is."""
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        while (message := self._read()).get("id") != self._number or "method" in message:
            if "id" in message:
                settings = [{"pythonPath": sys.executable} for _ in message["params"].get("items", ())]
                self._send({"id": message["id"], "result": settings or None})
        return message["result"]

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self._process.stdin.flush()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        length = 0
        while line := self._process.stdout.readline().strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        assert length, "the language server ended"
        return json.loads(self._process.stdout.read(length))


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LanguageServer]:
    file = tmp_path_factory.mktemp("project") / "program.py"
    file.write_text(PROGRAM)
    python = Path(sys.prefix)
    settings = {"venvPath": str(python.parent), "venv": python.name}
    (file.parent / "pyrightconfig.json").write_text(json.dumps(settings))
    server = LanguageServer(file)
    yield server
    server.close()


@pytest.mark.parametrize("word", SHOWN)
def test_an_editor_shows_what_a_name_takes_does_and_raises(editor: LanguageServer, word: str) -> None:
    shown = editor.hover(word)
    assert not [part for part in SHOWN[word] if part not in shown], shown

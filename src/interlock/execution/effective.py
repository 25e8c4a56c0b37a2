"""The effective command: everything that decides what would run, and one hash over all of it.

Values of environment variables and of stdin appear as digests only. The document is what a grant's pins are
held against, what a policy sees as payload, and what a reviewer approves; it is computed again before the
command runs, and any difference is a drift.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from interlock.codec.canonical import digest

HASH_DOMAIN = "command/v1"


class Effective(msgspec.Struct, frozen=True, kw_only=True):
    """A command ready to run. `env` holds the values themselves; the document does not."""

    task: str | None
    argv: tuple[str, ...]
    args: tuple[str, ...]
    program: str
    cwd: str
    env: dict[str, str]
    stdin: bytes | None
    timeout_seconds: int
    definition: dict[str, Any] | None

    def document(self) -> dict[str, Any]:
        """What is approved, with its hash."""
        facts: dict[str, Any] = {
            "task": self.task,
            "argv": list(self.argv),
            "args": list(self.args),
            "program": self.program,
            "cwd": self.cwd,
            "env": {
                name: _sha256(value.encode(errors="surrogateescape")) for name, value in self.env.items()
            },
            "stdin": None if self.stdin is None else _sha256(self.stdin),
            "timeout_seconds": self.timeout_seconds,
            "definition": self.definition,
        }
        return {**facts, "command_hash": digest(HASH_DOMAIN, facts)}


def topic_of(task: str | None, program: str) -> str:
    """What a policy calls this command: `exec.<task>`, or `exec.<program>` where no task is declared."""
    name = task if task is not None else program.rpartition("/")[2]
    parts = (
        "".join(char if char.isascii() and (char.isalnum() or char in "_-") else "_" for char in part)
        for part in name.split(".")
    )
    return ".".join(["exec", *filter(None, parts)])


def drift(approved: Mapping[str, Any], current: Mapping[str, Any]) -> list[str]:
    """What differs between what was approved and what would run, a line each; empty if nothing does."""
    lines: list[str] = []
    for name in sorted({*approved, *current} - {"command_hash"}):
        before, after = approved.get(name), current.get(name)
        if before != after:
            lines += _difference(name, before, after)
    if not lines and approved.get("command_hash") != current.get("command_hash"):
        lines += _difference("command_hash", approved.get("command_hash"), current.get("command_hash"))
    return lines


def _difference(name: str, before: Any, after: Any) -> list[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        old, new = cast("dict[str, Any]", before), cast("dict[str, Any]", after)
        changed = (key for key in sorted({*old, *new}) if old.get(key) != new.get(key))
        return [line for key in changed for line in _difference(f"{name}.{key}", old.get(key), new.get(key))]
    return [f"  {name}", f"  - approved  {_shown(before)}", f"  + would run {_shown(after)}"]


def _shown(value: Any) -> str:
    return "(absent)" if value is None else msgspec.json.encode(value).decode()


def _sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"

"""Tasks read before, beside the embedded store: reading YAML costs more than all else that a start needs.

Named by the content of the task file, so there is nothing to go stale. Used only where the store itself is
opened: whoever can write here can write there, so it adds nobody to those who are trusted.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

import msgspec

from interlock.execution.tasks import BadTask, Task, read_tasks

_NAME = "tasks.json"


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    sha256: str
    tasks: dict[str, Task]


def kept_tasks(folder: Path, content: bytes) -> dict[str, Task] | None:
    """The tasks of a file with this content, if they were read before."""
    try:
        kept = msgspec.json.decode((folder / _NAME).read_bytes(), type=_Kept)
        return read_tasks({"tasks": kept.tasks}) if kept.sha256 == _sha256(content) else None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, BadTask):
        return None


def keep_tasks(folder: Path, content: bytes, tasks: dict[str, Task]) -> None:
    """Keep them for the next start; where that is not possible, nothing is lost."""
    kept = msgspec.json.encode(_Kept(sha256=_sha256(content), tasks=tasks))
    draft = folder / f"{_NAME}.{os.getpid()}"
    with contextlib.suppress(OSError):
        if folder.is_dir():
            draft.write_bytes(kept)
            draft.replace(folder / _NAME)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()

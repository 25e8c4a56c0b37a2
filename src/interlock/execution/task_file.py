"""Finding and reading `interlock.yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from interlock.execution.task_cache import keep_tasks, kept_tasks
from interlock.execution.tasks import BadTask, Task, read_tasks

NAME = "interlock.yaml"
_BYTES_MAX = 256 * 1024


def find_task_file(start: Path) -> Path | None:
    """The nearest `interlock.yaml` in a folder or above it."""
    folders = (start, *start.parents)
    return next((path for folder in folders if (path := folder / NAME).is_file()), None)


def read_task_file(path: Path, *, kept_in: Path | None = None) -> dict[str, Task]:
    """The tasks that a file declares, from `kept_in` if they were read before. Raises `BadTask`."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise BadTask(f"cannot read {path}: {error.strerror}") from None
    if len(text) > _BYTES_MAX:
        raise BadTask(f"{path} is larger than {_BYTES_MAX} bytes")
    kept = kept_tasks(kept_in, text) if kept_in else None
    return kept if kept is not None else _read_anew(path, text, kept_in)


def _read_anew(path: Path, text: bytes, kept_in: Path | None) -> dict[str, Task]:
    try:
        tasks = read_tasks(_document(text))
    except (BadTask, UnicodeDecodeError) as error:
        raise BadTask(f"{path}: {error}") from None
    if kept_in:
        keep_tasks(kept_in, text, tasks)
    return tasks


def _document(text: bytes) -> Any:
    from interlock.policy.source import PolicyInvalid
    from interlock.policy.source_yaml import read_yaml

    try:
        source = read_yaml(text.decode())
    except PolicyInvalid as invalid:
        raise BadTask(str(invalid)) from None
    if source.faults:
        raise BadTask("\n".join(map(str, source.faults)))
    return _plain(source.root)


def _plain(node: Any) -> Any:
    from interlock.policy.source import Mapping, Scalar, Sequence

    match node:
        case Scalar():
            return node.value
        case Sequence():
            return [_plain(item) for item in node.items]
        case Mapping():
            return {name: _plain(entry.node) for name, entry in node.entries.items()}
        case _:
            return None

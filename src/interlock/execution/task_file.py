"""Finding and reading `interlock.yaml`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.execution.tasks import BadTask, Task, read_tasks
from interlock.runtime.places import nearest

if TYPE_CHECKING:
    from interlock.codec.located import LocatedFault, Source

NAME = "interlock.yaml"
_BYTES_MAX = 256 * 1024


def find_task_file(start: Path) -> Path | None:
    """The nearest `interlock.yaml` in a folder or above it."""
    return nearest(NAME, start)


def read_task_file(path: Path) -> dict[str, Task]:
    """The tasks that a file declares. Raises `BadTask`.

    Nothing of it is kept for the next time: what is kept could be changed by those who cannot change the file.
    """
    try:
        with path.open("rb") as file:
            text = file.read(_BYTES_MAX + 1)
    except OSError as error:
        raise BadTask(f"cannot read {path}: {error.strerror}") from None
    if len(text) > _BYTES_MAX:
        raise BadTask(f"{path} is larger than {_BYTES_MAX} bytes")
    return _tasks_of(path, text)


def _tasks_of(path: Path, text: bytes) -> dict[str, Task]:
    from interlock.codec.located import plain

    source = _source(path, text)
    document = plain(source.root)
    try:
        return read_tasks(document)
    except BadTask:
        from interlock.execution.task_faults import faults_of

        raise _told(path, faults_of(source, document)) from None


def _source(path: Path, text: bytes) -> Source:
    """The file as a tree that knows its places. Raises `BadTask`."""
    from interlock.codec.located import SourceInvalid, decoded
    from interlock.codec.located_yaml import read_yaml

    try:
        source = read_yaml(decoded(text))
    except SourceInvalid as invalid:
        raise _told(path, invalid.errors) from None
    if source.faults:
        raise _told(path, source.faults)
    return source


def _told(path: Path, faults: Iterable[LocatedFault]) -> BadTask:
    """Spelled as compilers do, so that editors can jump to it."""
    return BadTask("\n".join(f"{path}:{fault}" for fault in faults))

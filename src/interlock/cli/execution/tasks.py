"""Tasks as `interlock.yaml` declares them. Pure: the file is read elsewhere.

tasks:
  deploy:
    command: [./deploy.sh, --region, eu]
    cwd: ops
    env: [DEPLOY_TOKEN]
    timeout: 10m
    approval: {required: true, groups: [ops], risk: [production], signed: false}
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec

from interlock.kernel.codec.durations import seconds_of
from interlock.kernel.codec.located import (
    LocatedFault,
    Mapping,
    Node,
    Sequence,
    Source,
    SourceInvalid,
    decoded,
    plain,
)
from interlock.kernel.codec.shapes import MISSPELT, shape_faults
from interlock.service.settings import nearest
from interlock.wire.fields import DurationText

TIMEOUT_SECONDS_DEFAULT = 3600
TIMEOUT_SECONDS_MAX = 82_800  # so that the record of the effect, which outlives it, fits into a day

# Tokens that only a shell would understand; no shell is started unless the task asks for one.
_SHELL_TOKENS = frozenset({"|", "||", "&", "&&", ";", ">", ">>", "<", "<<", "2>", "2>&1", "`"})

_ENDS_TEXT = "\0"  # to whatever is asked to start a program

Name = Annotated[
    str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.\-]*$(?!\n)")
]
Variable = Annotated[
    str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$(?!\n)")
]
Word = Annotated[str, msgspec.Meta(max_length=100_000)]


class BadTask(ValueError):
    """A task that cannot be run as declared; the message names it and says what to write. `field` is to blame."""

    def __init__(self, message: str, *, field: str = "command") -> None:
        super().__init__(message)
        self.field = field


class TaskApproval(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What people must have said. `required`: that a policy allows it is not enough. A rule that denies it stands."""

    required: bool = True
    groups: tuple[str, ...] = ()
    risk: tuple[str, ...] | str = ()
    signed: bool = False

    @property
    def risks(self) -> tuple[str, ...]:
        return (self.risk,) if isinstance(self.risk, str) else self.risk


class Task(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One declared task. A `command` that is text is split into words as a shell would, and no shell runs."""

    command: tuple[Word, ...] | Word
    cwd: str = "."
    env: tuple[Variable, ...] = ()
    timeout: DurationText = "1h"
    approval: TaskApproval = TaskApproval()

    @property
    def timeout_seconds(self) -> int:
        return seconds_of(self.timeout)

    def definition(self) -> dict[str, Any]:
        """The declaration as JSON: part of what is hashed, so that changing it is a drift."""
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return plain


class TaskFile(msgspec.Struct, frozen=True, kw_only=True):
    """The part of `interlock.yaml` that declares tasks; other parts belong to others."""

    tasks: dict[Name, Task] = {}


def read_tasks(document: object) -> dict[str, Task]:
    """Every task of a document, checked. Raises `BadTask`."""
    try:
        tasks = msgspec.convert({} if document is None else document, TaskFile).tasks
    except msgspec.ValidationError as error:
        raise BadTask(str(error)) from None
    for name, task in tasks.items():
        check_task(name, task)
    return tasks


def check_task(name: str, task: Task) -> None:
    """Raise `BadTask` if it could not be run, whatever its arguments."""
    words_of(name, task)
    if _ENDS_TEXT in task.cwd:
        raise BadTask(f"task {name}: cwd has a character in it that no folder's name has", field="cwd")
    if not 1 <= task.timeout_seconds <= TIMEOUT_SECONDS_MAX:
        raise BadTask(f"task {name}: timeout must be between 1s and {TIMEOUT_SECONDS_MAX}s", field="timeout")


def words_of(name: str, task: Task) -> tuple[str, ...]:
    """The command's words before any arguments. Raises `BadTask`."""
    words = _split(name, task.command) if isinstance(task.command, str) else task.command
    if not words or not words[0]:
        raise BadTask(f"task {name}: command is empty; write it like [./deploy.sh, --region, eu]")
    if any(_ENDS_TEXT in word for word in words):
        raise BadTask(f"task {name}: command has a word with a NUL in it, which no program can be given")
    return words


def _split(name: str, text: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise BadTask(f"task {name}: command cannot be split into words: {error}") from None
    if _SHELL_TOKENS.intersection(words):
        raise BadTask(f"task {name}: command needs a shell; write it as [sh, -c, {text!r}]")
    return words


_UNKNOWN = "unknown field"
_SPELLED = {
    "timeout": "is not a duration; write it like 30s, 10m or 2h",
    "env": "is not a variable's name; write the name alone, such as DEPLOY_TOKEN",
}


def faults_of(source: Source, document: Any) -> list[LocatedFault]:
    """All that keeps the tasks of a file from being read, from top to bottom; `document` is the file without places."""
    root = source.root
    if not isinstance(root, Mapping):
        return [source.error(root.start, "", "write `tasks:`, and below it every task by its name")]
    if "tasks" not in root.entries:
        return []
    tasks = root.entries["tasks"].node
    if not isinstance(tasks, Mapping):
        return [source.error(tasks.start, "tasks", "write every task by its name, with its `command`")]
    return [
        source.error(_place(entry.node, steps, reason), ".".join(("tasks", name, *steps)), reason)
        for name, entry in tasks.entries.items()
        for steps, reason in _faults(name, document["tasks"][name])
    ]


def _faults(name: str, document: Any) -> Iterator[tuple[tuple[str, ...], str]]:
    """Where in one task something is wrong, and what."""
    try:
        msgspec.convert(name, Name)
    except msgspec.ValidationError:
        yield (), "a task's name has letters, digits, `_`, `.` and `-`, and begins with none of the last two"
    try:
        check_task(name, msgspec.convert(document, Task))
    except msgspec.ValidationError as error:
        for fault in shape_faults(str(error), document, Task):
            steps = tuple(fault.path.split("/")[1:])
            yield steps, _advised(steps, fault.reason)
    except BadTask as error:
        yield (error.field,), str(error)


def _advised(steps: tuple[str, ...], reason: str) -> str:
    """The reason with advice: YAML reads a bare true or 7 as another type, and a regular expression helps no reader."""
    if reason.startswith(MISSPELT) or "matching regex" in reason:
        return _SPELLED.get(steps[0], reason)
    if not reason.startswith("expected str, got"):
        return reason
    advice = "write it like 10m" if steps == ("timeout",) else "write it in quotes"
    return f"{reason}; {advice}"


def _place(node: Node, steps: tuple[str, ...], reason: str) -> int:
    """The character to point at: an unknown field's name, or the value; of what is missing, where it would be."""
    for step in steps:
        if isinstance(node, Mapping) and step in node.entries:
            entry = node.entries[step]
            if reason.startswith(_UNKNOWN) and step == steps[-1]:
                return entry.key.start
            node = entry.node
        elif isinstance(node, Sequence) and step.isdecimal() and int(step) < len(node.items):
            node = node.items[int(step)]
    return node.start


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
    source = _source(path, text)
    document = plain(source.root)
    try:
        return read_tasks(document)
    except BadTask:
        raise _told(path, faults_of(source, document)) from None


def _source(path: Path, text: bytes) -> Source:
    """The file as a tree that knows its places. Raises `BadTask`."""
    from interlock.kernel.codec.located_yaml import read_yaml

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

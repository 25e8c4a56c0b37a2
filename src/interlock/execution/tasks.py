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
from typing import Annotated, Any

import msgspec

from interlock.codec.durations import DurationText, seconds_of

TIMEOUT_SECONDS_DEFAULT = 3600
TIMEOUT_SECONDS_MAX = 82_800  # so that the record of the effect, which outlives it, fits into a day

# Tokens that only a shell would understand; no shell is started behind somebody's back.
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

"""What is wrong with a task file, each with its line and column. Loaded only once something is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from interlock.codec.located import LocatedFault, Mapping, Node, Sequence, Source
from interlock.codec.shapes import MISSPELT, shape_faults
from interlock.execution.tasks import BadTask, Name, Task, check_task

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
    """YAML reads a bare true or 7 as something else than text; and nobody reads a pattern."""
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

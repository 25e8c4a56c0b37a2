"""Writes docs/states.md, one diagram a room, from the transition tables that the rules themselves obey."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path

import interlock

PAGE = Path(__file__).parents[1] / "docs" / "states.md"
Transitions = Mapping[tuple[Enum, str], Enum]

PREFACE = """# States

Written by `make docs` from the `TRANSITIONS` table in each room's model; edit the tables, not this page.
A verb that a state does not show is refused in that state.
"""


def main() -> None:
    """Write the page."""
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(render())
    print(f"wrote {PAGE.relative_to(Path.cwd()) if PAGE.is_relative_to(Path.cwd()) else PAGE}")


def render() -> str:
    """The whole page."""
    return "\n".join([PREFACE, *(_section(room, table) for room, table in tables())])


def tables() -> list[tuple[str, Transitions]]:
    """Every room that has a transition table, by name."""
    found: list[tuple[str, Transitions]] = []
    rooms = Path(interlock.__path__[0]) / "rooms"
    for model in rooms.glob("*/model.py"):
        room = model.parent.name
        module = importlib.import_module(f"interlock.rooms.{room}.model")
        # An approval lives in its job, and has a table of its own.
        for name, title in (("TRANSITIONS", room), ("APPROVAL_TRANSITIONS", "approvals")):
            if (table := getattr(module, name, None)) is not None:
                found.append((title, table))
    return sorted(found, key=lambda each: each[0])


def _section(room: str, table: Transitions) -> str:
    title = room.capitalize()
    lines = [f"## {title}", "", "```mermaid", "stateDiagram-v2", *_arrows(table), *_ends(table), "```", ""]
    return "\n".join(lines)


def _arrows(table: Transitions) -> Iterable[str]:
    # Verbs that lead the same way share one arrow, or the picture drowns in them.
    verbs: dict[tuple[Enum, Enum], list[str]] = {}
    for (before, verb), after in table.items():
        verbs.setdefault((before, after), []).append(verb)
    for (before, after), words in verbs.items():
        yield f"    {before.value} --> {after.value}: {', '.join(words)}"


def _ends(table: Transitions) -> Iterable[str]:
    left = {before for before, _ in table}
    for state in dict.fromkeys(table.values()):
        if state not in left:
            yield f"    {state.value} --> [*]"


if __name__ == "__main__":
    main()

"""Parses YAML into a tree of located nodes.

The tree is built from the parser's events without recursion, so no text can exhaust the stack. Plain scalars follow
the core schema of YAML 1.2: `true`, `false`, `null` and numbers are read as such, and everything else is text (`no`,
`on` and `12:30` too). Aliases, tags and merge keys are refused, so that each line can be understood where it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, cast

import yaml

from interlock.kernel.codec.located import (
    DEPTH_MAX,
    Entry,
    Mapping,
    Node,
    Plain,
    Scalar,
    Sequence,
    Source,
    SourceInvalid,
)

_INTEGER = re.compile(r"[-+]?[0-9]{1,18}", re.ASCII)
_NUMBER = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]{1,3})?", re.ASCII)
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), None),
}


def read_yaml(text: str) -> Source:
    """Read one YAML document; raise `SourceInvalid` if it is not YAML at all."""
    source = Source(text)
    tree = _Tree(source)
    try:
        for event in _events(text):
            tree.take(event)
    except yaml.YAMLError as error:
        raise SourceInvalid([*source.faults, _syntax_error(source, error)]) from None
    source.root = tree.root or Scalar(None, 0, 0)
    return source


def _events(text: str) -> Iterable[Any]:
    # The stubs know neither the C loader's generator nor its events.
    return cast("Iterable[Any]", yaml.parse(text, Loader=yaml.CSafeLoader))  # pyright: ignore[reportUnknownMemberType]


def _syntax_error(source: Source, error: yaml.YAMLError) -> Any:
    mark = getattr(error, "problem_mark", None)
    offset = mark.index if mark is not None else getattr(error, "position", 0)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    context = getattr(error, "context", None)
    return source.error(
        min(offset, len(source.text)), "", f"not YAML: {problem}{f' {context}' if context else ''}"
    )


class _Open:
    """A list or mapping whose end has not been seen. Keys wait in `key` for their value."""

    def __init__(self, start: int, *, is_mapping: bool) -> None:
        self.start = start
        self.is_mapping = is_mapping
        self.items: list[Node] = []
        self.entries: dict[str, Entry] = {}
        self.key: Node | None = None

    def closed(self) -> Node:
        return (
            Mapping(self.entries, self.start) if self.is_mapping else Sequence(tuple(self.items), self.start)
        )


class _Tree:
    """Builds nodes from events."""

    def __init__(self, source: Source) -> None:
        self.root: Node | None = None
        self._source = source
        self._open: list[_Open] = []

    def take(self, event: Any) -> None:
        start, end = event.start_mark.index, event.end_mark.index
        if isinstance(event, yaml.DocumentStartEvent) and self.root is not None:
            raise self._stop(start, "a second document; a file holds one, so remove the '---' before it")
        if isinstance(event, yaml.AliasEvent):
            self._fault(start, "aliases are not read here; write the value out")
            self._place(Scalar(None, start, end))
        elif isinstance(event, yaml.ScalarEvent):
            self._check_tag(event, start)
            self._place(Scalar(_value_of(event), start, end))
        elif isinstance(event, yaml.SequenceStartEvent | yaml.MappingStartEvent):
            self._check_tag(event, start)
            self._descend(_Open(start, is_mapping=isinstance(event, yaml.MappingStartEvent)))
        elif isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
            self._place(self._open.pop().closed())

    def _descend(self, opened: _Open) -> None:
        self._open.append(opened)
        if len(self._open) > DEPTH_MAX:
            raise self._stop(opened.start, f"nested deeper than {DEPTH_MAX} levels")

    def _place(self, node: Node) -> None:
        if not self._open:
            self.root = node
            return
        holder = self._open[-1]
        if not holder.is_mapping:
            holder.items.append(node)
        elif holder.key is None:
            holder.key = node
        else:
            self._enter(holder, holder.key, node)
            holder.key = None

    def _enter(self, holder: _Open, key: Node, node: Node) -> None:
        if not isinstance(key, Scalar) or not isinstance(key.value, str):
            self._fault(key.start, "a field name must be text; put it in quotes")
        elif key.value in holder.entries:
            first = self._source.place_of(holder.entries[key.value].key.start)
            self._fault(key.start, f"{key.value!r} was already given on line {first.line}; keep one of them")
        else:
            holder.entries[key.value] = Entry(key, node)

    def _check_tag(self, event: Any, start: int) -> None:
        if event.tag is not None and event.tag != "!":
            self._fault(start, f"the tag {event.tag!r} is not read here; write the plain value")

    def _fault(self, offset: int, message: str) -> None:
        self._source.faults.append(self._source.error(offset, "", message))

    def _stop(self, offset: int, message: str) -> SourceInvalid:
        return SourceInvalid([*self._source.faults, self._source.error(offset, "", message)])


def _value_of(event: Any) -> Plain:
    text: str = event.value
    if not event.implicit[0]:  # quoted, or a block: text whatever it looks like
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text

"""Parses JSON (RFC 8259) into a tree of located nodes."""

from __future__ import annotations

import json
import re

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

_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORD = re.compile(r"true|false|null")
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
_DIGITS_MAX = 18


def read_json(text: str) -> Source:
    """Read one JSON text; raise `SourceInvalid` if it is not JSON at all."""
    return _Reader(text).read()


class _Reader:
    """Reads from `_at` on. Recursion is bounded by the depth limit."""

    def __init__(self, text: str) -> None:
        self._source = Source(text)
        self._text = text
        self._at = 0

    def read(self) -> Source:
        self._source.root = self._node(0)
        if self._at != len(self._text):
            raise self._stopped("nothing may follow the value")
        return self._source

    def _node(self, depth: int) -> Node:
        self._skip_space()
        if depth > DEPTH_MAX:
            raise self._stopped(f"nested deeper than {DEPTH_MAX} levels")
        opening = self._text[self._at : self._at + 1]
        if opening == "{":
            node = self._mapping(depth)
        elif opening == "[":
            node = self._sequence(depth)
        else:
            node = self._scalar()
        self._skip_space()
        return node

    def _mapping(self, depth: int) -> Mapping:
        start = self._at
        entries: dict[str, Entry] = {}
        self._at += 1
        self._skip_space()
        while not self._accept("}"):
            self._next_of(entries)
            key = self._name()
            self._expect(":", "after a field name")
            node = self._node(depth + 1)
            if str(key.value) in entries:
                self._duplicate(key, entries[str(key.value)])
            else:
                entries[str(key.value)] = Entry(key, node)
        return Mapping(entries, start)

    def _sequence(self, depth: int) -> Sequence:
        start = self._at
        items: list[Node] = []
        self._at += 1
        self._skip_space()
        while not self._accept("]"):
            self._next_of(items)
            items.append(self._node(depth + 1))
        return Sequence(tuple(items), start)

    def _next_of(self, members: dict[str, Entry] | list[Node]) -> None:
        if members:
            self._expect(",", "between members")
            self._skip_space()

    def _name(self) -> Scalar:
        if not self._text.startswith('"', self._at):
            raise self._stopped("a field name in double quotes is needed here")
        name = self._scalar()
        self._skip_space()
        return name

    def _scalar(self) -> Scalar:
        start = self._at
        for pattern, value_of in ((_STRING, _text_of), (_NUMBER, _number_of), (_WORD, _WORDS.get)):
            if match := pattern.match(self._text, start):
                self._at = match.end()
                return Scalar(value_of(match.group()), start, match.end())
        raise self._stopped(
            "a value is needed here: text in double quotes, a number, true, false, null, { or ["
        )

    def _duplicate(self, key: Scalar, first: Entry) -> None:
        line = self._source.place_of(first.key.start).line
        message = f"{key.value!r} was already given on line {line}; keep one of them"
        self._source.faults.append(self._source.error(key.start, "", message))

    def _skip_space(self) -> None:
        if match := _SPACE.match(self._text, self._at):
            self._at = match.end()

    def _accept(self, character: str) -> bool:
        found = self._text.startswith(character, self._at)
        self._at += found
        return found

    def _expect(self, character: str, where: str) -> None:
        if not self._accept(character):
            raise self._stopped(f"{character!r} is needed here, {where}")

    def _stopped(self, message: str) -> SourceInvalid:
        return SourceInvalid([*self._source.faults, self._source.error(self._at, "", f"not JSON: {message}")])


def _text_of(literal: str) -> str:
    return str(json.loads(literal))


def _number_of(literal: str) -> Plain:
    if literal.lstrip("-").isdecimal() and len(literal) <= _DIGITS_MAX:
        return int(literal)
    return float(literal)

"""Text that people write (policies, test cases, task files), parsed into nodes that know their line and column.

YAML and JSON become the same three kinds of node. So an error can point at its line and column, and both syntaxes
have the same meaning. Errors of the text itself (a duplicate key, an alias) are kept with the tree and reported
together with errors of its content.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import msgspec

from interlock.kernel.codec.strict import JsonValue

TEXT_BYTES_MAX = 256 * 1024
DEPTH_MAX = 32
ERRORS_MAX = 100  # with more than this, the author fixes these first

Plain: TypeAlias = "str | int | float | bool | None"


class LocatedFault(msgspec.Struct, frozen=True, kw_only=True):
    """One thing wrong with a text: where (path, and line and column from 1) and what to do about it."""

    path: str
    message: str
    line: int
    column: int

    def __str__(self) -> str:
        """Spell it as compilers do, so that editors can jump to it."""
        where = f"{self.path}: " if self.path else ""
        return f"{self.line}:{self.column}: {where}{self.message}"


class SourceInvalid(ValueError):
    """The text is not valid; `errors` lists every error, from top to bottom."""

    def __init__(self, errors: Iterable[LocatedFault]) -> None:
        """Carry at least one error, in the order of the text, and only the first at each place."""
        found = {(error.line, error.column): error for error in reversed(list(errors))}
        self.errors = tuple(found[place] for place in sorted(found))[:ERRORS_MAX]
        super().__init__("\n".join(str(error) for error in self.errors))


class LineAndColumn(NamedTuple):
    """A line and a column, both counted from 1 in characters."""

    line: int
    column: int


class Scalar(msgspec.Struct, frozen=True):
    """One value: what it says, and the half-open range of characters that say it."""

    value: Plain
    start: int
    end: int


class Sequence(msgspec.Struct, frozen=True):
    """A list."""

    items: tuple[Node, ...]
    start: int


class Mapping(msgspec.Struct, frozen=True):
    """Keys and values in the order written; a key written twice appears once, with its first value."""

    entries: dict[str, Entry]
    start: int


class Entry(NamedTuple):
    """One field of a mapping."""

    key: Scalar
    node: Node


Node: TypeAlias = Scalar | Sequence | Mapping


class Source:
    """A text, its tree, and the errors of the text itself."""

    def __init__(self, text: str) -> None:
        """Start with a text whose tree is still to be read; `root` and `faults` are filled by its reader."""
        self.text = text
        self.root: Node = Scalar(None, 0, 0)
        self.faults: list[LocatedFault] = []
        self._line_starts = [0, *(at + 1 for at, character in enumerate(text) if character == "\n")]

    def place_of(self, offset: int) -> LineAndColumn:
        """The line and column of a character."""
        line = bisect_right(self._line_starts, offset)
        return LineAndColumn(line, offset - self._line_starts[line - 1] + 1)

    def error(self, offset: int, path: str, message: str) -> LocatedFault:
        """An error that points at a character."""
        line, column = self.place_of(offset)
        return LocatedFault(path=path, message=message, line=line, column=column)

    def offset_inside(self, scalar: Scalar, value_offset: int) -> int:
        """Where in the text the character at `value_offset` of a scalar's value was written.

        Block and folded scalars change only white space, so the n-th visible character of the value is the
        n-th visible one of what was written. Where that does not hold (an escape), it is the scalar's start.
        """
        value = str(scalar.value)
        written = self._body_of(scalar)
        shown = [at for at, character in enumerate(value) if not character.isspace()]
        before = bisect_right(shown, value_offset - 1)
        aligned = [value[at] for at in shown[: before + 1]] == [self.text[at] for at in written[: before + 1]]
        if not aligned or not written:
            return scalar.start
        if before < len(shown) and shown[before] == value_offset:
            return written[before]
        return written[before - 1] + 1 if before else scalar.start

    def _body_of(self, scalar: Scalar) -> list[int]:
        """The offsets of the visible characters of a scalar, without its quotes or its block header."""
        start = scalar.start
        if self.text[start : start + 1] in ("|", ">"):
            start = self.text.find("\n", start)
        elif self.text[start : start + 1] in ('"', "'"):
            start += 1
        return [at for at in range(start, scalar.end) if not self.text[at].isspace()]


def decoded(text: str | bytes) -> str:
    """Text without a byte order mark, or `SourceInvalid` if it is too long or not UTF-8."""
    raw = text if isinstance(text, bytes) else text.encode(errors="surrogatepass")
    if len(raw) > TEXT_BYTES_MAX:
        message = f"{len(raw)} bytes is too long; at most {TEXT_BYTES_MAX} are read"
        raise SourceInvalid([LocatedFault(path="", message=message, line=1, column=1)])
    try:
        return raw.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        readable = Source(raw[: error.start].decode())
        where = readable.error(len(readable.text), "", "this is not UTF-8; save the file as UTF-8")
        raise SourceInvalid([where]) from None


def plain(node: Node) -> JsonValue:
    """The value of a tree without its positions."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    return {name: plain(entry.node) for name, entry in node.entries.items()}


def kind_of(node: Node) -> str:
    """What a person would call this node."""
    if isinstance(node, Sequence):
        return "a list"
    if isinstance(node, Mapping):
        return "a mapping"
    return _SCALAR_KINDS[type(node.value)]


_SCALAR_KINDS: dict[type, str] = {
    str: "text",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "nothing",
}


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

"""Reads checked values from a parsed text. Errors are noted with their place, and reading goes on.

Every method returns None (or an empty tuple) for a value that it had to refuse, so that one mistake does not hide the
next.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TypeVar

from interlock.kernel.codec.durations import seconds_of
from interlock.kernel.codec.located import (
    Entry,
    LocatedFault,
    Mapping,
    Node,
    Scalar,
    Sequence,
    Source,
    kind_of,
    read_json,
)
from interlock.rooms.policy.language import duration_text

TEXT_MAX = 200
VALUES_MAX = 100

T = TypeVar("T")
Check = Callable[[str], str | None]  # the error in a text, or None
# Characters that cannot be seen can make two policies look alike; a null byte would cut an expression short.
_UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]"
)


def read_source(text: str, *, is_json: bool | None) -> Source:
    """The tree of a text. `is_json` None: JSON if it reads as JSON, else YAML."""
    if is_json is None and text.lstrip().startswith(("{", "[")):
        try:
            return read_json(text)
        except ValueError:
            return _read_yaml(text)
    return read_json(text) if is_json else _read_yaml(text)


def _read_yaml(text: str) -> Source:
    from interlock.kernel.codec.located_yaml import read_yaml

    return read_yaml(text)


class Reading:
    """Reads one source and collects its errors."""

    def __init__(self, source: Source) -> None:
        """Begin with the faults of the text itself."""
        self.source = source
        self.errors: list[LocatedFault] = list(source.faults)
        self.warnings: list[LocatedFault] = []

    def refuse(self, at: Node | int, path: str, message: str) -> None:
        """Note an error at a node, or at a character."""
        offset = at if isinstance(at, int) else at.start
        self.errors.append(self.source.error(offset, path, message))

    def warn(self, offset: int, path: str, message: str) -> None:
        """Warn of something that is allowed but probably a mistake."""
        self.warnings.append(self.source.error(offset, path, message))

    def fields(
        self,
        node: Node,
        path: str,
        known: Collection[str],
        *,
        open_prefix: str = "",
        required: Iterable[str] = (),
    ) -> dict[str, Entry]:
        """The fields of a mapping; every field must be known, or start with `open_prefix` if one is given."""
        if not isinstance(node, Mapping):
            self.refuse(node, path, f"expected a mapping with {_any_of(known)}, found {kind_of(node)}")
            return {}
        for name, entry in node.entries.items():
            if name not in known and not (open_prefix and name.startswith(open_prefix)):
                self.refuse(entry.key, join(path, name), _unknown(name, known))
        if missing := [repr(name) for name in required if name not in node.entries]:
            self.refuse(node, path, f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
        return node.entries

    def field(
        self,
        fields: dict[str, Entry],
        path: str,
        name: str,
        read: Callable[[Node, str], T | None],
        default: T,
    ) -> T:
        """What `read` makes of a field; the default if the field is absent or was refused."""
        entry = fields.get(name)
        value = None if entry is None else read(entry.node, join(path, name))
        return default if value is None else value

    def items(self, node: Node, path: str, most: int) -> Iterator[tuple[str, Node]]:
        """Each item of a list with its path."""
        if not isinstance(node, Sequence):
            self.refuse(node, path, f"expected a list, found {kind_of(node)}; begin each item with '- '")
            return
        if len(node.items) > most:
            self.refuse(node, path, f"{len(node.items)} items are too many; at most {most} are read")
        for position, item in enumerate(node.items[:most]):
            yield f"{path}[{position}]", item

    def text(
        self, node: Node, path: str, *, longest: int = TEXT_MAX, check: Check | None = None
    ) -> str | None:
        """A text of bounded length without characters that cannot be seen."""
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            quoting = "; put it in quotes" if isinstance(node, Scalar) and node.value is not None else ""
            self.refuse(node, path, f"expected text, found {kind_of(node)}{quoting}")
            return None
        problem = _text_problem(node.value, longest) or (check(node.value) if check else None)
        if problem:
            self.refuse(node, path, problem)
            return None
        return node.value

    def texts(self, node: Node, path: str, *, check: Check | None = None) -> tuple[str, ...]:
        """A text or a list of them, sorted and without repetition, since their order means nothing."""
        if not isinstance(node, Sequence):
            value = self.text(node, path, check=check)
            return () if value is None else (value,)
        read = (self.text(item, at, check=check) for at, item in self.items(node, path, VALUES_MAX))
        return tuple(sorted({value for value in read if value is not None}))

    def whole(self, node: Node, path: str, *, low: int, high: int) -> int | None:
        """A whole number in a range."""
        value = node.value if isinstance(node, Scalar) else None
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(node, path, f"expected a whole number from {low} to {high}, found {kind_of(node)}")
            return None
        if not low <= value <= high:
            self.refuse(node, path, f"{value} is out of range; use a whole number from {low} to {high}")
            return None
        return value

    def flag(self, node: Node, path: str) -> bool | None:
        """True or false."""
        if isinstance(node, Scalar) and isinstance(node.value, bool):
            return node.value
        self.refuse(node, path, f"expected true or false, found {kind_of(node)}")
        return None

    def choice(self, node: Node, path: str, options: Collection[str]) -> str | None:
        """One of a few words."""
        value = node.value if isinstance(node, Scalar) else None
        if isinstance(value, str) and value in options:
            return value
        found = repr(value) if isinstance(value, str) else kind_of(node)
        self.refuse(node, path, f"expected {_any_of(options)}, found {found}{_nearest(str(value), options)}")
        return None

    def seconds(self, node: Node, path: str, *, low: int, high: int) -> int | None:
        """A duration such as 30s, 15m, 4h or 7d, in seconds."""
        if isinstance(node, Scalar) and type(node.value) is int:
            self.refuse(node, path, f"{node.value} has no unit; write {node.value}s, or use m, h or d")
            return None
        return self.parsed(node, path, lambda text: _bounded(text, seconds_of(text), low, high))

    def parsed(self, node: Node, path: str, parse: Callable[[str], T]) -> T | None:
        """The value that `parse` returns for a text; its `ValueError` is noted as an error."""
        text = self.text(node, path)
        if text is None:
            return None
        try:
            return parse(text)
        except ValueError as error:
            self.refuse(node, path, str(error))
            return None


def join(path: str, name: str) -> str:
    """The path of a field of the node at `path`."""
    return f"{path}.{name}" if path else name


def _text_problem(text: str, longest: int) -> str | None:
    if len(text) > longest:
        return f"{len(text)} characters are too many; at most {longest} are read"
    if unseen := _UNSEEN.search(text):
        return f"the character U+{ord(unseen.group()):04X} cannot be seen; remove it"
    return None


def _bounded(text: str, seconds: int, low: int, high: int) -> int:
    if not low <= seconds <= high:
        raise ValueError(f"{text!r} is out of range; use {duration_text(low)} to {duration_text(high)}")
    return seconds


def _any_of(options: Collection[str]) -> str:
    *others, last = (repr(str(option)) for option in options)
    return f"{', '.join(others)} or {last}" if others else last


def _unknown(name: str, known: Collection[str]) -> str:
    return f"unknown field {name!r}" + (_nearest(name, known) or f"; known here: {', '.join(known)}")


def _nearest(name: str, options: Collection[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name.lower(), options, n=1, cutoff=0.6)
    return f"; did you mean {str(near[0])!r}?" if near else ""

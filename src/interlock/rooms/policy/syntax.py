"""The syntax tree of a compiled expression, decoded from the CEL library's output.

That output is a protocol buffer (`cel.expr.CheckedExpr`, a published and stable format). Its few messages are decoded
here by hand, which avoids the protobuf runtime. The parser bounds the depth of every tree to 32.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import msgspec


class Constant(msgspec.Struct, frozen=True):
    """A literal; `text` is None unless it is a string or bytes."""

    id: int
    text: bytes | None
    is_null: bool = False


class Name(msgspec.Struct, frozen=True):
    """A variable, or the name of a type."""

    id: int
    name: str


class Field(msgspec.Struct, frozen=True):
    """`operand.name`, or with `is_test` `has(operand.name)`."""

    id: int
    operand: Expression
    name: str
    is_test: bool = False


class FunctionCall(msgspec.Struct, frozen=True):
    """A function or operator. A method's target is its first argument."""

    id: int
    function: str
    arguments: tuple[Expression, ...]


class Collection(msgspec.Struct, frozen=True):
    """A list or map literal, or a message if `message` names one."""

    id: int
    members: tuple[Expression, ...]
    message: str


class Loop(msgspec.Struct, frozen=True):
    """What `all`, `exists`, `exists_one`, `map` and `filter` become."""

    id: int
    variables: tuple[str, ...]
    over: Expression
    accumulator: str
    start: Expression
    condition: Expression
    step: Expression
    result: Expression


Expression: TypeAlias = Constant | Name | Field | FunctionCall | Collection | Loop


class Tree(msgspec.Struct, frozen=True):
    """An expression, and the character at which each of its nodes was written."""

    root: Expression
    offsets: dict[int, int]


def read_tree(serialized: bytes) -> Tree:
    """Read what `Expression.serialize()` gave: an `Any` that holds a `CheckedExpr`."""
    checked = _fields(_bytes(_fields(serialized), 2))
    positions = _fields(_bytes(checked, 5)).get(4, [])
    pairs = [_fields(pair) for pair in positions if isinstance(pair, bytes)]
    return Tree(_expression(_bytes(checked, 4)), {_number(pair, 1): _number(pair, 2) for pair in pairs})


def nodes_of(expression: Expression) -> Iterator[Expression]:
    """The expression and everything in it."""
    yield expression
    for child in _children(expression):
        yield from nodes_of(child)


def names_in(expression: Expression) -> frozenset[str]:
    """Every name in an expression."""
    return frozenset(node.name for node in nodes_of(expression) if isinstance(node, Name))


_Fields: TypeAlias = dict[int, list[int | bytes]]


def _children(expression: Expression) -> tuple[Expression, ...]:
    match expression:
        case Constant() | Name():
            return ()
        case Field():
            return (expression.operand,)
        case FunctionCall():
            return expression.arguments
        case Collection():
            return expression.members
        case Loop():
            parts = (expression.start, expression.condition, expression.step, expression.result)
            return (expression.over, *parts)


def _expression(raw: bytes) -> Expression:
    fields = _fields(raw)
    node = _number(fields, 2)
    for tag, read in _READERS.items():
        if tag in fields:
            return read(node, _fields(_bytes(fields, tag)))
    return Constant(node, None)


def _constant(node: int, fields: _Fields) -> Expression:
    texts = [value for tag in (6, 7) for value in fields.get(tag, []) if isinstance(value, bytes)]
    return Constant(node, texts[0] if texts else None, is_null=1 in fields)


def _name(node: int, fields: _Fields) -> Expression:
    return Name(node, _text(fields, 1))


def _field(node: int, fields: _Fields) -> Expression:
    return Field(node, _expression(_bytes(fields, 1)), _text(fields, 2), is_test=_number(fields, 3) == 1)


def _call(node: int, fields: _Fields) -> Expression:
    arguments = [*fields.get(1, []), *fields.get(3, [])]
    return FunctionCall(node, _text(fields, 2), _expressions(arguments))


def _list(node: int, fields: _Fields) -> Expression:
    return Collection(node, _expressions(fields.get(1, [])), "")


def _map(node: int, fields: _Fields) -> Expression:
    entries = [_fields(entry) for entry in fields.get(2, []) if isinstance(entry, bytes)]
    members = [part for entry in entries for tag in (3, 4) for part in entry.get(tag, [])]
    return Collection(node, _expressions(members), _text(fields, 1))


def _loop(node: int, fields: _Fields) -> Expression:
    variables = tuple(name for tag in (1, 8) if (name := _text(fields, tag)))
    over, start, condition, step, result = (_expression(_bytes(fields, tag)) for tag in (2, 4, 5, 6, 7))
    return Loop(node, variables, over, _text(fields, 3), start, condition, step, result)


_READERS = {3: _constant, 4: _name, 5: _field, 6: _call, 7: _list, 8: _map, 9: _loop}


def _expressions(parts: list[int | bytes]) -> tuple[Expression, ...]:
    return tuple(_expression(part) for part in parts if isinstance(part, bytes))


def _fields(raw: bytes) -> _Fields:
    """The fields of one message: numbers as they are, everything with a length as bytes."""
    found: _Fields = {}
    at = 0
    while at < len(raw):
        tag, at = _varint(raw, at)
        wire = tag & 7
        if wire == 0:
            value, at = _varint(raw, at)
        else:
            length, at = _varint(raw, at) if wire == 2 else (_FIXED[wire], at)
            value, at = raw[at : at + length], at + length
        found.setdefault(tag >> 3, []).append(value)
    return found


_FIXED = {1: 8, 5: 4}


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while raw[at] & 0x80:
        value |= (raw[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | raw[at] << shift, at + 1


def _number(fields: _Fields, tag: int) -> int:
    value = fields.get(tag, [0])[-1]
    return value if isinstance(value, int) else 0


def _bytes(fields: _Fields, tag: int) -> bytes:
    value = fields.get(tag, [b""])[-1]
    return value if isinstance(value, bytes) else b""


def _text(fields: _Fields, tag: int) -> str:
    return _bytes(fields, tag).decode()

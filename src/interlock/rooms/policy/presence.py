"""Finds fields that an expression reads but a request may lack, when the policy is parsed and when it fails.

An expression that reads a missing field fails, and the request is denied. `unguarded` finds the fields that are read
without a test that they are present; `culprit` names the field that an expression failed on.

Tests are followed as CEL evaluates them. In `a && b` an error on one side does not count if the other is false, so
each side may rely on what the other tests; in `a || b`, on what the other denies; in `c ? x : y`, `x` on what `c`
tests and `y` on what it denies.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeAlias, cast

from interlock.rooms.policy.syntax import (
    Collection,
    Constant,
    Expression,
    Field,
    FunctionCall,
    Loop,
    Name,
    Tree,
    nodes_of,
)

_INDEX, _MEMBER, _NOT, _AND, _OR, _CHOICE = "_[_]", "@in", "!_", "_&&_", "_||_", "_?_:_"
_ACTOR_FIELDS = ("id", "kind", "groups", "owner")
_ITEM = "[]"
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)

Path: TypeAlias = tuple[str, ...]  # a name or a loop's variable, then the fields below it
Present: TypeAlias = frozenset[Path]
_NONE: Present = frozenset()


class Stumble(NamedTuple):
    """The field on which an expression failed, and why; None where it is not known more closely."""

    field: str | None = None
    why: str | None = None


def unguarded(tree: Tree) -> list[tuple[int, str]]:
    """Where fields are read that may be missing, each with how to write it instead; the first place of each field."""
    found: dict[Path, tuple[int, str]] = {}
    for access in _Walk().accesses(tree.root):
        bare = [path for path in access.prefixes if not access.is_certain(path)]
        if bare and not any(path in found for path in bare):
            found[bare[-1]] = (tree.offsets.get(access.root.id, 0), _advice(access, bare))
            found |= dict.fromkeys(bare[:-1], found[bare[-1]])
    return sorted(set(found.values()))


def culprit(tree: Tree, facts: Mapping[str, object], report: str) -> Stumble:
    """Which field of the request the library's report is about."""
    walk = _Walk()
    accesses = [*walk.accesses(tree.root)]
    for sign, find in _FINDERS:
        if sign in report:
            found = find(report.partition(sign)[2].strip(), tree, accesses, facts)
            if found is not None:
                return found
    read = {access.shown for access in accesses}
    return Stumble(field=read.pop()) if len(read) == 1 else Stumble()


class _Access(NamedTuple):
    """One chain of fields that is read, as it is written (`path`) and by what it comes from (`origin`)."""

    root: Name
    path: Path
    origin: Path
    present: Present

    @property
    def prefixes(self) -> Iterator[Path]:
        return (self.path[:length] for length in range(2, len(self.path) + 1))

    @property
    def shown(self) -> str:
        return _spelled(self.origin)

    def is_certain(self, path: Path) -> bool:
        """Whether every request has this, or a test around it made sure."""
        source = self.origin[0]
        if source == "actor":
            return path[1] in _ACTOR_FIELDS
        return source not in ("payload", "labels") or path in self.present


class _Walk:
    """Goes through an expression and knows what the variables of the loops around stand for."""

    def __init__(self) -> None:
        self._origins: dict[str, Path] = {}

    def accesses(self, root: Expression) -> Iterator[_Access]:
        return self._walk(root, _NONE)

    def _walk(self, node: Expression, present: Present) -> Iterator[_Access]:
        chain = _chain(node)
        if chain is not None:
            yield from self._access(chain, present, is_test=isinstance(node, Field) and node.is_test)
            return
        match node:
            case Constant() | Name():
                return
            case Field():
                yield from self._walk(node.operand, present)
            case FunctionCall():
                for each, known in _with_knowledge(node, present):
                    yield from self._walk(each, known)
            case Collection():
                for each in node.members:
                    yield from self._walk(each, present)
            case Loop():
                yield from self._in_loop(node, present)

    def _access(self, chain: tuple[Name, Path], present: Present, *, is_test: bool) -> Iterator[_Access]:
        root, path = chain
        read = path[:-1] if is_test else path
        if len(read) > 1:
            origin = (*self._origins.get(root.name, (root.name,)), *read[1:])
            yield _Access(root, read, origin, present)

    def _in_loop(self, loop: Loop, present: Present) -> Iterator[_Access]:
        yield from self._walk(loop.over, present)
        yield from self._walk(loop.start, present)
        over = _chain(loop.over)
        kept = dict(self._origins)
        for variable in loop.variables:
            above = (*kept.get(over[1][0], (over[1][0],)), *over[1][1:]) if over else ("payload",)
            self._origins[variable] = (*above, _ITEM)
        # A loop's variable is not the field of the same name outside the loop.
        known = frozenset(path for path in present if path[0] not in loop.variables)
        for part in (loop.condition, loop.step, loop.result):
            yield from self._walk(part, known)
        self._origins = kept


def _chain(node: Expression) -> tuple[Name, Path] | None:
    """The name and the fields of `a.b["c"]`; None for anything else."""
    match node:
        case Name():
            return node, (node.name,)
        case Field():
            below, key = _chain(node.operand), node.name
        case FunctionCall(function="_[_]", arguments=(operand, Constant(text=bytes(text)))):
            below, key = _chain(operand), text.decode()
        case _:
            return None
    return (below[0], (*below[1], key)) if below else None


def _with_knowledge(call: FunctionCall, present: Present) -> Iterator[tuple[Expression, Present]]:
    """Each argument, with the fields that are known to exist when it is evaluated."""
    arguments = call.arguments
    if call.function == _CHOICE and len(arguments) == 3:
        condition, then, otherwise = arguments
        yield condition, present
        yield then, present | _present_if(condition, holds=True)
        yield otherwise, present | _present_if(condition, holds=False)
    elif call.function in (_AND, _OR):
        for place, each in enumerate(arguments):
            others = (other for at, other in enumerate(arguments) if at != place)
            tested = (_present_if(other, holds=call.function == _AND) for other in others)
            yield each, present.union(*tested)
    else:
        yield from ((each, present) for each in arguments)


def _present_if(node: Expression, *, holds: bool) -> Present:
    """The fields that certainly exist if this is true, or if it is false."""
    match node:
        case Field(is_test=True) if holds:
            chain = _chain(node)
            return frozenset(chain[1][:length] for length in range(2, len(chain[1]) + 1)) if chain else _NONE
        case FunctionCall(function="@in", arguments=(Constant(text=bytes(key)), where)) if holds:
            chain = _chain(where)
            return frozenset({(*chain[1], key.decode())}) if chain else _NONE
        case FunctionCall(function="!_", arguments=(inner,)):
            return _present_if(inner, holds=not holds)
        case FunctionCall(function="_&&_" | "_||_", arguments=arguments):
            each = [_present_if(argument, holds=holds) for argument in arguments]
            every_one_counts = (node.function == _AND) == holds
            return _NONE.union(*each) if every_one_counts else each[0].intersection(*each[1:])
        case _:
            return _NONE


def _advice(access: _Access, bare: list[Path]) -> str:
    path = _spelled(access.path)
    if access.origin[0] == "actor":
        return f"actor has no field {path}, so every request is denied; it has {', '.join(_ACTOR_FIELDS)}"
    tests = " && ".join(map(_test_of, bare))
    without = f"!{tests}" if len(bare) == 1 and tests.startswith("has(") else f"!({tests})"
    return (
        f"{path} may be missing, and a request without it is denied; if that is not meant, write {tests} && … "
        f"(the rule does not match without it) or {without} || … (it does)"
    )


def _test_of(path: Path) -> str:
    if _WORD.fullmatch(path[-1]):
        return f"has({_spelled(path)})"
    return f"{json.dumps(path[-1])} in {_spelled(path[:-1])}"


def _spelled(path: Path) -> str:
    """A path as an expression writes it; names with special characters are escaped."""
    shown = path[0]
    for key in path[1:]:
        shown += key if key == _ITEM else f".{key}" if _WORD.fullmatch(key) else f"[{json.dumps(key)}]"
    return shown


# Which field a report is about.

_NOTHING = object()


def _missing(detail: str, tree: Tree, accesses: list[_Access], facts: Mapping[str, object]) -> Stumble | None:
    try:
        key = json.loads(detail)
    except ValueError:
        return None
    for access in accesses:
        for length in range(2, len(access.origin) + 1):
            path = access.origin[:length]
            above = _values_at(facts, path[:-1])
            if path[-1] == key and any(isinstance(each, dict) and key not in each for each in above):
                field = _spelled(path)
                return Stumble(
                    field, f"there is no field {field}; send it, or have the rule test it with has() first"
                )
    return None


def _not_an_object(
    _: str, tree: Tree, accesses: list[_Access], facts: Mapping[str, object]
) -> Stumble | None:
    # has() reads the parent of the field it tests.
    tests = (_chain(node) for node in nodes_of(tree.root) if isinstance(node, Field) and node.is_test)
    paths = [access.origin for access in accesses] + [chain[1] for chain in tests if chain]
    for path in paths:
        for length in range(1, len(path)):
            for value in _values_at(facts, path[:length]):
                if not isinstance(value, dict) and path[length] != _ITEM:
                    above, field = _spelled(path[:length]), _spelled(path[: length + 1])
                    return Stumble(
                        field, f"{above} is {_kind(value)}, so it has no field {field}; send an object"
                    )
    return None


_SIGNATURE = re.compile(r"(?:\((?P<on>[^)]*)\)\.)?(?P<function>[^(\s]+)")


def _misfit(detail: str, tree: Tree, accesses: list[_Access], facts: Mapping[str, object]) -> Stumble | None:
    signature = _SIGNATURE.match(detail.removeprefix("found : ").removeprefix(": "))
    function = signature["function"] if signature else ""
    for operand in _operands(tree.root, function):
        chain = _chain(operand)
        if chain is None or chain[1][0] not in facts:
            continue
        for value in _values_at(facts, chain[1]):
            if not _suits(function, value):
                field = _spelled(chain[1])
                return Stumble(field, _unfit(f"{field} is {_kind(value)}", function, detail))
    return None


def _unfit(what: str, function: str, detail: str) -> str:
    if function == "<jump_condition>":
        return f"it gave something other than true or false: {what}"
    if function.startswith(("<", "@")):
        return f"{what}, not a list or an object; send one"
    signature = detail.removeprefix("found : ")
    return f"{what}, so the types do not fit: {signature}; convert with int(), double() or string()"


def _operands(root: Expression, function: str) -> Iterator[Expression]:
    """What the function or operator that a report names is applied to."""
    if function == "<jump_condition>":
        yield root
    for node in nodes_of(root):
        if isinstance(node, Loop) and function == "<iter_range>":
            yield node.over
        elif isinstance(node, FunctionCall) and node.function == function:
            yield from node.arguments
        elif isinstance(node, FunctionCall) and node.function == _CHOICE and function == "<jump_condition>":
            yield node.arguments[0]


def _suits(function: str, value: object) -> bool:
    """Whether this value cannot be what does not fit."""
    if function in (_AND, _OR, _NOT, "<jump_condition>"):
        return isinstance(value, bool)
    return function in ("<iter_range>", _MEMBER) and isinstance(value, list | dict)


_FINDERS: tuple[
    tuple[str, Callable[[str, Tree, list[_Access], Mapping[str, object]], Stumble | None]], ...
] = (
    ("Key not found in map :", _missing),
    ("Applying SELECT to non-message type", _not_an_object),
    ("No matching overloads", _misfit),
)


def _values_at(facts: Mapping[str, object], path: Path) -> list[object]:
    """The values at a path, in every item of the lists on the way."""
    values: list[object] = [facts]
    for key in path:
        below: list[object] = []
        for value in values:
            if key == _ITEM:
                below.extend(cast("list[object]", value) if isinstance(value, list) else [])
            elif isinstance(value, Mapping):
                found = cast("Mapping[str, object]", value).get(key, _NOTHING)
                below.extend([] if found is _NOTHING else [found])
        values = below
    return values


_KINDS: tuple[tuple[type, str], ...] = (
    (str, "a text"), (int, "a whole number"), (float, "a number"), (list, "a list"), (dict, "an object"),
)  # fmt: skip


def _kind(value: object) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "true or false"
    return next((name for kind, name in _KINDS if isinstance(value, kind)), "something else")

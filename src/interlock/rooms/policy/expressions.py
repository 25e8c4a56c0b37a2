"""Policy expressions in CEL, behind a small interface. No other module uses the library.

The library (`cel-expr-python`, around the reference implementation in C++) has three weaknesses to guard against:

- It cannot be interrupted, so an expression that could exceed the budget is refused before it starts
  (see `cost`).
- It cuts a text at U+0000, and half a surrogate pair stops the process: both are refused.
- Reading a null result frees Python's `None` once too often, until the process dies. So each expression runs
  inside `(…) ? true : false`, and only true, false or an error ever comes out.

Whole numbers are CEL `int`, all others `double`. Comparison across the two works; arithmetic across them does
not, and `double(x)` converts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, cached_property, lru_cache
from typing import Any, NamedTuple, Protocol, cast

from cel_expr_python import cel  # pyright: ignore[reportMissingTypeStubs]

from interlock.kernel.codec.strict import JsonValue
from interlock.rooms.policy.cost import KnownValue, literal_patterns, seconds_at_most, unpriced
from interlock.rooms.policy.facts import Extent, TooDear, Unanswered, checked, extent_of
from interlock.rooms.policy.presence import culprit, unguarded
from interlock.rooms.policy.syntax import (
    Collection,
    Constant,
    Expression,
    Field,
    FunctionCall,
    Loop,
    Name,
    Tree,
    names_in,
    nodes_of,
    read_tree,
)

EXPRESSION_MAX = 4096
EVALUATION_SECONDS = 5.0
NAMES = ("topic", "env", "channel", "labels", "risk", "payload", "actor", "tenant", "priority")

# An expression that could outlast the budget even on a small job is refused when the policy is read.
_SMALL_JOB = Extent(total=16_384, text=1024, width=64)
_WHY_MAX = 300
_KNOWN_PRICES_MAX = 512


class ExpressionProblem(NamedTuple):
    """An error in an expression, and at which character (from 0)."""

    message: str
    offset: int


class ExpressionInvalid(ValueError):
    """The text is not an expression that policies offer."""

    def __init__(self, problems: list[ExpressionProblem]) -> None:
        """Carry at least one problem."""
        super().__init__("; ".join(problem.message for problem in problems))
        self.problems = tuple(problems)


class ExpressionFailed(Exception):
    """A rule's expression could not be answered about a request: nothing may be released."""

    def __init__(self, *, rule: str, expression: str, why: str, field: str | None = None) -> None:
        """Name the rule, its expression, the reason and the field that it stumbled over."""
        super().__init__(f"rule {rule!r} could not be evaluated: {why} (in {expression!r})")
        self.rule = rule
        self.expression = expression
        self.why = why
        self.field = field


class OverBudget(ExpressionFailed):
    """It could outlast the budget, so that it is not known what the policy says of this request."""


class Facts:
    """What expressions are asked about, converted at most once. Raises `Unanswered` for what CEL misreads."""

    def __init__(self, values: Mapping[str, JsonValue]) -> None:
        """Check and measure `values`: those of `NAMES` that will be asked about."""
        ready, self.extent = checked(values)
        self.values = cast("dict[str, object]", ready)
        self.activation = _environment().Activation(self.values)
        self.extents: dict[int, Extent] = {}

    @cached_property
    def known(self) -> dict[str, KnownValue]:
        """Each of the values with its extent."""
        return {name: KnownValue(extent_of(value), value) for name, value in self.values.items()}


class Program:
    """A compiled expression."""

    def __init__(
        self, text: str, tree: Tree, compiled: _Compiled, warnings: Iterable[ExpressionProblem]
    ) -> None:
        """Keep what `compile_expression` made. `warnings`: what a request may lack that this reads."""
        self.text = text
        self.warnings = tuple(warnings)
        self.names = names_in(tree.root).intersection(NAMES)
        self._tree = tree
        self._compiled = compiled
        self._prices: dict[tuple[int, int, int], float] = {}

    def seconds_at_most(self, facts: Facts, *, left: float) -> float:
        """How long the answer can take. The exact price is computed only if the rough one exceeds the budget left."""
        rough = self.roughly(facts.extent)
        if rough <= left:
            return rough
        return min(rough, seconds_at_most(self._tree, facts.extent, facts.known, facts.extents))

    def roughly(self, extent: Extent) -> float:
        """How long the answer can take for any facts of this extent, rounded up to powers of two."""
        key = (extent.total.bit_length(), extent.text.bit_length(), extent.width.bit_length())
        price = self._prices.get(key)
        if price is None:
            if len(self._prices) >= _KNOWN_PRICES_MAX:
                self._prices.clear()
            bound = Extent(*(1 << bits for bits in key))
            price = seconds_at_most(self._tree, bound, dict.fromkeys(NAMES, KnownValue(bound)))
            self._prices[key] = price
        return price

    def holds(self, facts: Facts) -> bool:
        """The answer, or `Unanswered`. The caller has made sure that there is time for it."""
        try:
            return self._answer(facts.activation)
        except _Reported as reported:
            if any(sign in reported.report for sign in _OUT_OF_MEMORY):
                raise TooDear(_explained(reported.report)) from None
            stumbled = culprit(self._tree, facts.values, reported.report)
            why = stumbled.why or _explained(reported.report)
            raise Unanswered(why, stumbled.field) from None

    def prepare(self) -> None:
        """Build what the library builds at first use, by asking once about nothing."""
        with suppress(_Reported):
            self._answer(_environment().Activation({}))

    def _answer(self, activation: object) -> bool:
        try:
            answer = self._compiled.eval(activation).value()
        except (RuntimeError, MemoryError) as error:
            raise _Reported(str(error) or "bad_alloc") from None
        if answer is True or answer is False:
            return answer
        raise _Reported(str(answer))


@lru_cache(maxsize=2 * 1024)  # a policy is checked, then compiled: its expressions need be built only once
def compile_expression(text: str) -> Program:
    """Compile an expression that gives true or false; raise `ExpressionInvalid` with every problem found."""
    if len(text) > EXPRESSION_MAX:
        raise ExpressionInvalid(
            [ExpressionProblem(f"longer than {EXPRESSION_MAX} characters; split the rule", 0)]
        )
    if not text.strip():
        raise ExpressionInvalid([ExpressionProblem("is empty; write a condition, or leave it out", 0)])
    if "\0" in text:
        raise ExpressionInvalid([ExpressionProblem("contains U+0000; remove it", text.index("\0"))])
    checked = _compiled(text)
    tree = read_tree(checked.serialize())
    if problems := [*_unfit(checked, tree)]:
        raise ExpressionInvalid(problems)
    warnings = [ExpressionProblem(message, offset) for offset, message in unguarded(tree)]
    named = with_actors_named(text, tree)
    if named != text:
        tree = read_tree(_compiled(named).serialize())
    program = Program(text, tree, _compiled(f"({named}\n) ? true : false"), warnings)
    if program.roughly(_SMALL_JOB) > EVALUATION_SECONDS:
        message = "this could take longer than the evaluation budget even on a small job; simplify it"
        raise ExpressionInvalid([ExpressionProblem(message, 0)])
    program.prepare()
    return program


class _Reported(Exception):
    """What the library says in place of an answer."""

    def __init__(self, report: str) -> None:
        super().__init__(report)
        self.report = report


class _Value(Protocol):
    def value(self) -> object: ...


class _Compiled(Protocol):
    def eval(self, activation: object) -> _Value: ...
    def return_type(self) -> Any: ...
    def serialize(self) -> bytes: ...


class _Environment(Protocol):
    def Activation(self, data: Mapping[str, object]) -> object: ...  # noqa: N802 - the library's spelling
    def compile(self, expression: str) -> _Compiled: ...


@cache
def _environment() -> _Environment:
    kinds = cast("Any", cel.Type)
    text = kinds.STRING
    variables = dict.fromkeys(NAMES, text) | {
        "payload": kinds.DYN,
        "labels": kinds.Map(text, text),
        "risk": kinds.List(text),
        "actor": kinds.DYN,  # a map, or its name where it stands by itself
    }
    return cast("_Environment", cast("Any", cel).NewEnv(variables=variables))


_REPORTED = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): ([^\n]*)")


def _compiled(text: str) -> _Compiled:
    try:
        return _environment().compile(text)
    except (RuntimeError, ValueError) as error:
        raise ExpressionInvalid([*_reported(text, str(error))]) from None


def _reported(text: str, report: str) -> Iterator[ExpressionProblem]:
    found = _REPORTED.findall(report)
    if "recursion" in report or not found:
        reason = (
            "nested deeper than 32 levels; split the rule" if "recursion" in report else report[:_WHY_MAX]
        )
        yield ExpressionProblem(reason, 0)
        return
    lines = text.split("\n")
    for line, column, message in found:
        before = sum(len(earlier) + 1 for earlier in lines[: max(int(line) - 1, 0)])
        yield ExpressionProblem(
            message.removesuffix(" (in container '')")[:_WHY_MAX],
            min(before + max(int(column) - 1, 0), len(text)),
        )


def _unfit(checked: _Compiled, tree: Tree) -> Iterator[ExpressionProblem]:
    kind = checked.return_type().name()
    if kind not in ("BOOL", "DYN"):
        yield ExpressionProblem(f"gives {kind.lower()}, not true or false; compare it with something", 0)
    for offset, message in (*unpriced(tree), *compared_with_null(tree)):
        yield ExpressionProblem(message, offset)
    for offset, pattern in literal_patterns(tree):
        if why := _pattern_problem(pattern):
            yield ExpressionProblem(f"not a regular expression (RE2): {why}", offset)


def _pattern_problem(pattern: str) -> str | None:
    # The library knows a bad pattern only when it meets one, so it is shown this one now.
    tried = _environment().compile("(topic.matches(tenant)) ? true : false")
    answer = tried.eval(_environment().Activation({"topic": "", "tenant": pattern})).value()
    return None if isinstance(answer, bool) else str(answer).partition(": ")[2][:_WHY_MAX]


_OUT_OF_MEMORY = ("bad_alloc", "Cannot allocate", "RESOURCE_EXHAUSTED")
_EXPLAINED = (
    ("Key not found in map : ", "there is no field {}; send it, or have the rule test it with has() first"),
    ("<jump_condition>", "it gave something other than true or false"),
    ("No matching overloads", "the types do not fit: {}; convert with int(), double() or string()"),
    ("Iteration budget exceeded", "it looped more than 10,000 times; ask about less"),
    ("bad_alloc", "it ran out of memory; ask about less"),
)


def _explained(report: str) -> str:
    detail = report[:_WHY_MAX].removesuffix(" [INTERNAL]").partition(": ")[2] or report[:_WHY_MAX]
    for sign, explanation in _EXPLAINED:
        if sign in report:
            return explanation.format(detail.removeprefix(sign).removeprefix(" found : "))
    return detail


_ACTOR = "actor"
_NAME = ".id"
_INDEX, _MEMBER = "_[_]", "@in"
_EQUALITIES = ("_==_", "_!=_")
_INSTEAD = {"owner": 'compare it with "", which it is for an actor without an owner'}
_NOT = "leave this out"


def with_actors_named(text: str, tree: Tree) -> str:
    """The expression with `actor` spelled `actor.id` where it is not used as a map.

    `actor` is a map (`id`, `kind`, `groups`, `owner`), so `actor == "bot"` would be false for every actor, and in a
    rule that denies, nobody would notice.
    """
    for offset in sorted({tree.offsets[node.id] for node in _bare(tree.root)}, reverse=True):
        end = text.index(_ACTOR, offset) + len(_ACTOR)
        text = text[:end] + _NAME + text[end:]
    return text


def compared_with_null(tree: Tree) -> list[tuple[int, str]]:
    """Where a part of the actor is compared with null, and what to write instead: no part is ever null."""
    found: list[tuple[int, str]] = []
    shadowed = _in_loops_over_actors(tree)
    for call in nodes_of(tree.root):
        if not isinstance(call, FunctionCall) or call.function not in _EQUALITIES or call.id in shadowed:
            continue
        left, right = call.arguments
        for compared, null in ((left, right), (right, left)):
            name = _of_actor(compared)
            if name is not None and isinstance(null, Constant) and null.is_null:
                found.append(
                    (tree.offsets.get(call.id, 0), f"actor.{name} is never null; {_INSTEAD.get(name, _NOT)}")
                )
    return found


def _in_loops_over_actors(tree: Tree) -> set[int]:
    """The nodes inside loops whose own variable is called `actor`."""
    loops = [node for node in nodes_of(tree.root) if isinstance(node, Loop) and _ACTOR in node.variables]
    parts = [part for loop in loops for part in (loop.condition, loop.step, loop.result)]
    return {node.id for part in parts for node in nodes_of(part)}


def _of_actor(expression: Expression) -> str | None:
    """The field of `actor` that this is, if it is one."""
    match expression:
        case Name(name="actor"):
            return "id"
        case Field(operand=Name(name="actor"), name=field):
            return field
        case FunctionCall(function="_[_]", arguments=(Name(name="actor"), Constant(text=bytes(key)))):
            return key.decode()
        case _:
            return None


def _bare(expression: Expression) -> Iterator[Name]:
    match expression:
        case Name():
            if expression.name == _ACTOR:
                yield expression
        case Constant():
            return
        case Field():
            yield from _below(expression.operand)
        case FunctionCall():
            mapped = {_INDEX: 0, _MEMBER: 1}.get(expression.function)
            for place, each in enumerate(expression.arguments):
                yield from _below(each) if place == mapped else _bare(each)
        case Collection():
            for each in expression.members:
                yield from _bare(each)
        case Loop():
            yield from _in_loop(expression)


def _below(expression: Expression) -> Iterator[Name]:
    """The names that stand by themselves inside an expression that is used as a map."""
    return iter(()) if isinstance(expression, Name) else _bare(expression)


def _in_loop(loop: Loop) -> Iterator[Name]:
    yield from _below(loop.over)
    if _ACTOR in loop.variables:
        return  # another `actor`: the loop's own
    for part in (loop.start, loop.condition, loop.step, loop.result):
        yield from _bare(part)

"""An upper bound on how long an expression can run, known before it runs.

The CEL library runs native code that cannot be interrupted: it holds the interpreter's lock, so neither a signal nor
another thread runs until it ends. Its own limits (10,000 loop steps in all, 32 levels) are not enough: within them a
regular expression can run for 20 s and a chain of `map` can ask for terabytes. So every expression gets a price from
its tree and from the size of its input, and one that could exceed the budget is refused instead of started.

Prices are nanoseconds, set above what was measured on a slow machine. A byte that stays allocated until the end costs
16, so that five seconds cannot buy more than about 300 MB. Every price grows with the input.

The lower of two bounds is taken: the sum over the tree with each loop's body times its steps; and, since the library
stops after 10,000 steps in all, the part outside loops plus 10,000 times the most expensive body.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, cast

from interlock.rooms.policy.facts import UNIT, Extent, extent_of, widest
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

WEIGHT_MAX = 10_000_000  # far beyond what RE2 compiles; further counting would say nothing more

# A character class of Unicode names hundreds of ranges; "any character" is ten instructions in UTF-8.
_UNICODE_CLASS = 4000
_ANY_CHARACTER = 16
_ONE_CHARACTER = 2

_NEGATION = re.compile(r"^\[\^|\\[DWSPC]|\[:\^")
_TOKEN = re.compile(
    r"""(?P<unicode>\\[pP](?:\{[^}]*\}|.))
      | (?P<quoted>\\Q.*?(?:\\E|$))
      | (?P<negated>\\[DWSC])
      | (?P<escape>\\.)
      | (?P<klass>\[\^?\]?(?:\\[pP](?:\{[^}]*\}|.)|\\.|\[:[^\]]*:\]|[^\]\\])*\]?)
      | (?P<open>\()
      | (?P<close>\))
      | (?P<counted>\{(?P<low>[0-9]+)(?:,(?P<high>[0-9]*))?\})
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)


def weight(pattern: str) -> int:
    """An upper bound of the number of instructions in the compiled pattern."""
    groups = [0]
    last = 0  # the weight of what a repetition would repeat
    for token in _TOKEN.finditer(pattern):
        kind = token.lastgroup
        if kind == "open":
            groups.append(0)
            last = 0
            continue
        if kind == "close" and len(groups) > 1:
            last = groups.pop() + _ONE_CHARACTER
        elif token.group("counted"):
            last, repeated = last * _times(token), last
            groups[-1] -= repeated
        else:
            last = _atom(token.group(), kind)
        groups[-1] = min(groups[-1] + last, WEIGHT_MAX)
    folded = 2 if "(?" in pattern else 1  # a flag such as (?i) doubles the letters
    return min(sum(groups) * folded + _ONE_CHARACTER, WEIGHT_MAX)


def _times(token: re.Match[str]) -> int:
    # RE2 refuses a count above 1000; a larger one here only weighs more.
    counts = [int(digits[:6]) for digits in (token.group("low"), token.group("high")) if digits]
    return max(*counts, 1, 1) + 1


def _atom(text: str, kind: str | None) -> int:
    match kind:
        case "unicode":
            return _UNICODE_CLASS
        case "klass":
            named = text.count("\\p") + text.count("\\P")
            is_plain = text.isascii() and not _NEGATION.search(text)
            ranges = _ONE_CHARACTER * len(text) if is_plain else _ANY_CHARACTER * len(text)
            return ranges + named * _UNICODE_CLASS
        case "negated":
            return _ANY_CHARACTER
        case "quoted":
            return _ONE_CHARACTER * len(text.encode(errors="replace"))
        case _:
            return _ANY_CHARACTER if text == "." else _ONE_CHARACTER * len(text.encode(errors="replace"))


STEPS_MAX = 10_000

_ASK = 200_000  # begin and end
_NODE = 250  # evaluate one node
ASK_SECONDS = _ASK / 1e9
_READ = 8  # convert a unit of what is asked about, once
_COMPARE = 4  # compare a unit with another
_KEPT = 16  # allocate a byte
_SCAN = 2  # look at a byte
_SEARCH = 0.1  # compare a byte of a needle at a byte of the text
_MEMBER = 50  # look at one element of a list
_ELEMENT_BYTES = 32  # one element of a list
# A pattern is compiled at each use; then states are built for the first bytes, and later ones are cheaper.
_PATTERN_BUILD = 1000
_PATTERN_START = 30
_PATTERN_START_BYTES = 4096
_PATTERN_RUN = 5


class KnownValue(NamedTuple):
    """The known facts of a value before it is computed: its extent, and the value itself if it is a constant."""

    extent: Extent
    value: object = ...  # the ellipsis stands for "not known"; None is a value


class _Price(NamedTuple):
    """`straight`: without loop bodies. `nested`: with them. `body`: the dearest body, once."""

    straight: float
    nested: float
    body: float
    extent: Extent
    value: object = ...


class _Scope(NamedTuple):
    """What names mean here, and the extents of values that were measured before, by their identity."""

    known: Mapping[str, KnownValue]
    extents: dict[int, Extent]

    def extent_of(self, value: object) -> Extent:
        """The extent of a value, measured once: that takes as long as reading it, and it may be named often."""
        measured = self.extents.get(id(value))
        if measured is None:
            measured = self.extents[id(value)] = extent_of(value)
        return measured


_SMALL = Extent()
_WRITTEN = Extent(text=64)  # a number, time or type as text


def seconds_at_most(
    tree: Tree, asked: Extent, known: Mapping[str, KnownValue], extents: dict[int, Extent] | None = None
) -> float:
    """The most that the expression can take, if all it is asked about has the extent `asked` in all.

    `extents` are those of values inside `known`, kept from one expression to the next while the values are.
    """
    price = _price(tree.root, _Scope(known, {} if extents is None else extents))
    dearest = min(price.nested, price.straight + STEPS_MAX * price.body)
    return (_ASK + dearest + _READ * asked.total) / 1e9


def unpriced(tree: Tree) -> list[tuple[int, str]]:
    """What cannot be priced, so is not offered: the offset of each place and what to write instead."""
    problems = ((tree.offsets.get(node.id, 0), _problem(node)) for node in nodes_of(tree.root))
    return [(offset, problem) for offset, problem in problems if problem]


def literal_patterns(tree: Tree) -> list[tuple[int, str]]:
    """Every regular expression in the tree with its offset."""
    calls = [
        node for node in nodes_of(tree.root) if isinstance(node, FunctionCall) and node.function == "matches"
    ]
    return [(tree.offsets.get(call.arguments[1].id, 0), _pattern(call)) for call in calls]


def _problem(node: Expression) -> str | None:
    if isinstance(node, Collection) and node.message:
        return f"{node.message} is not offered in policies; use a map"
    if not isinstance(node, FunctionCall):
        return None
    if node.function not in _FUNCTIONS:
        return f"{node.function}() is not offered in policies"
    if node.function == "matches" and not isinstance(node.arguments[1], Constant):
        return "the pattern of matches() must be written out as text, so that its cost is known"
    if node.function.startswith("get") and len(node.arguments) > 1:
        return f"{node.function}() takes no time zone in policies; it answers in UTC"
    return None


def _price(node: Expression, scope: _Scope) -> _Price:
    match node:
        case Constant():
            length = len(node.text or b"")
            return _flat(_NODE, Extent(UNIT + length, length))
        case Name():
            known = scope.known.get(node.name, KnownValue(_WRITTEN))
            return _flat(_NODE, known.extent)._replace(value=known.value)
        case Field():
            return _field(node, scope)
        case Collection():
            return _collection(node, scope)
        case FunctionCall():
            parts = [_price(argument, scope) for argument in node.arguments]
            spent, extent = _FUNCTIONS[node.function](node, [part.extent for part in parts])
            return _sum(parts, _NODE + spent, extent)
        case Loop():
            return _loop(node, scope)


def _field(node: Field, scope: _Scope) -> _Price:
    operand = _price(node.operand, scope)
    if not isinstance(operand.value, dict):
        return _sum([operand], _NODE, operand.extent)
    value = cast("dict[str, object]", operand.value).get(node.name)
    return _sum([operand], _NODE, scope.extent_of(value))._replace(value=value)


def _flat(spent: float, extent: Extent) -> _Price:
    return _Price(spent, spent, 0, extent)


def _sum(parts: Sequence[_Price], spent: float, extent: Extent) -> _Price:
    straight = spent + sum(part.straight for part in parts)
    nested = spent + sum(part.nested for part in parts)
    return _Price(straight, nested, max((part.body for part in parts), default=0), extent)


def _collection(node: Collection, scope: _Scope) -> _Price:
    parts = [_price(member, scope) for member in node.members]
    total = UNIT + sum(part.extent.total for part in parts)
    text = max((part.extent.text for part in parts), default=0)
    width = max([len(parts), *(part.extent.width for part in parts)])
    spent = len(parts) * (_ELEMENT_BYTES * _KEPT + _SCAN * text)
    return _sum(parts, spent, Extent(total, text, width))


def _loop(node: Loop, scope: _Scope) -> _Price:
    over, start = _price(node.over, scope), _price(node.start, scope)
    steps = min(_members(node.over, over.extent), STEPS_MAX)
    each = dict.fromkeys(node.variables, KnownValue(_each(over, scope)))
    within = _Scope({**scope.known, **each, node.accumulator: KnownValue(start.extent)}, scope.extents)
    step = _price(node.step, within)
    # `map` and `filter` add one member at each step, and copy what they have for it.
    gathers = isinstance(node.start, Collection)
    gathered = Extent(step.extent.total * max(steps, 1), step.extent.text, max(step.extent.width, steps))
    copying = steps * _ELEMENT_BYTES * _KEPT if gathers else 0
    turn = _sum([_price(node.condition, within), step], _NODE + copying, step.extent)
    result = {**within.known, node.accumulator: KnownValue(gathered if gathers else step.extent)}
    after = _price(node.result, _Scope(result, scope.extents))
    around = _sum([over, start, after], _NODE, after.extent)
    nested = around.nested + steps * turn.nested
    return _Price(around.straight, nested, max(around.body, turn.body, turn.straight), after.extent)


def _each(over: _Price, scope: _Scope) -> Extent:
    """The extent of a member: the whole collection's, unless its members are known."""
    if not isinstance(over.value, list):
        return over.extent
    return widest([scope.extent_of(member) for member in cast("list[object]", over.value)])


def _members(node: Expression, extent: Extent) -> int:
    return len(node.members) if isinstance(node, Collection) else extent.width


_Pricing = Callable[[FunctionCall, list[Extent]], tuple[float, Extent]]


def _cheap(_call: FunctionCall, _given: list[Extent]) -> tuple[float, Extent]:
    return 0, _SMALL


def _equal(_call: FunctionCall, given: list[Extent]) -> tuple[float, Extent]:
    return _COMPARE * min(extent.total for extent in given), _SMALL


def _ordered(_call: FunctionCall, given: list[Extent]) -> tuple[float, Extent]:
    return _SCAN * min(extent.text for extent in given), _SMALL


def _joined(call: FunctionCall, given: list[Extent]) -> tuple[float, Extent]:
    left, right = given
    are_lists = any(isinstance(argument, Collection) for argument in call.arguments)
    members = sum(_members(*each) for each in zip(call.arguments, given, strict=True))
    text = max(left.text, right.text) if are_lists else left.text + right.text
    spent = (members * _ELEMENT_BYTES + (0 if are_lists else text)) * _KEPT
    return spent, Extent(left.total + right.total, text, max(members, left.width, right.width))


def _contained(_call: FunctionCall, given: list[Extent]) -> tuple[float, Extent]:
    sought, among = given
    compared = min(sought.total * max(among.width, 1), among.total)
    return _MEMBER * among.width + _COMPARE * compared + _SCAN * sought.text, _SMALL


def _searched(_call: FunctionCall, given: list[Extent]) -> tuple[float, Extent]:
    text, sought = given
    return _SCAN * text.text + _SEARCH * text.text * sought.text, _SMALL


def _matched(call: FunctionCall, given: list[Extent]) -> tuple[float, Extent]:
    program, length = weight(_pattern(call)), given[0].text
    per_instruction = (
        _PATTERN_BUILD + _PATTERN_START * min(length, _PATTERN_START_BYTES) + _PATTERN_RUN * length
    )
    return 10_000 + program * per_instruction, _SMALL


def _scanned(_call: FunctionCall, given: list[Extent]) -> tuple[float, Extent]:
    return _SCAN * max(extent.text for extent in given), _SMALL


def _converted(_call: FunctionCall, given: list[Extent]) -> tuple[float, Extent]:
    text = max(given[0].text, _WRITTEN.text)
    return _KEPT * text, Extent(UNIT + text, text)


def _chosen(_call: FunctionCall, given: list[Extent]) -> tuple[float, Extent]:
    return 0, widest(given)


def _element(_call: FunctionCall, given: list[Extent]) -> tuple[float, Extent]:
    return _SCAN * given[1].text, given[0]


def _same(_call: FunctionCall, given: list[Extent]) -> tuple[float, Extent]:
    return 0, given[0]


_FUNCTIONS: dict[str, _Pricing] = {
    **dict.fromkeys(("_&&_", "_||_", "!_", "-_", "_-_", "_*_", "_/_", "_%_"), _cheap),
    **dict.fromkeys(("@not_strictly_false", "__not_strictly_false__"), _cheap),
    **dict.fromkeys(("_==_", "_!=_"), _equal),
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_", "startsWith", "endsWith"), _ordered),
    **dict.fromkeys(("@in", "_in_", "in"), _contained),
    **dict.fromkeys(("string", "bytes", "timestamp", "duration", "type"), _converted),
    **dict.fromkeys(("size", "int", "uint", "double", "bool"), _scanned),
    **dict.fromkeys(
        (
            *("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"),
            *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
        ),
        _cheap,
    ),
    "_+_": _joined,
    "_?_:_": _chosen,
    "_[_]": _element,
    "contains": _searched,
    "dyn": _same,
    "matches": _matched,
}


def _pattern(call: FunctionCall) -> str:
    pattern = call.arguments[1]
    return (pattern.text or b"").decode(errors="replace") if isinstance(pattern, Constant) else ""

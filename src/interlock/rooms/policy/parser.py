"""Parses a policy from its text, or lists every error with its line and column.

`Reading` returns None (or an empty tuple) for a value that it had to refuse, so that one mistake does not hide the
next.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import Literal, NamedTuple, TypeVar, cast

from interlock.kernel.codec.durations import seconds_of
from interlock.kernel.codec.located import (
    ERRORS_MAX,
    Entry,
    LocatedFault,
    Mapping,
    Node,
    Scalar,
    Sequence,
    Source,
    SourceInvalid,
    decoded,
    kind_of,
    read_json,
)
from interlock.rooms.policy.expressions import EXPRESSION_MAX, ExpressionInvalid, compile_expression
from interlock.rooms.policy.language import (
    DAY_SECONDS,
    ApprovalRequirement,
    Binding,
    Decision,
    Escalation,
    OnExpiry,
    PolicyDocument,
    PolicyMode,
    Rate,
    Rule,
    Throttle,
    When,
    duration_text,
    finest,
    parse_rate,
)
from interlock.rooms.policy.matching import text_problem, topic_problem

QUORUM_MAX = 50
ESCALATIONS_MAX = 10
EXPIRY_SECONDS_MAX = 366 * DAY_SECONDS
GRACE_SECONDS_MAX = DAY_SECONDS

_APPROVAL = (
    "quorum",
    "groups",
    "self_approval",
    "expires_in",
    "on_expiry",
    "escalate",
    "binding",
    "require_hash",
    "grace",
)
_ESCALATION = ("after", "groups")
_DEFAULT = ApprovalRequirement()


def read_requirement(reading: Reading, node: Node, path: str) -> ApprovalRequirement:
    """Read an `approval`, with its defaults filled in."""
    fields = reading.fields(node, path, _APPROVAL)
    field = partial(reading.field, fields, path)
    duration = partial(reading.seconds, low=1, high=EXPIRY_SECONDS_MAX)
    expires_in = field("expires_in", duration, _DEFAULT.expires_in)
    on_expiry = field("on_expiry", partial(reading.choice, options=("deny", "escalate")), _DEFAULT.on_expiry)
    # What escalates when it expires opens every step then, however late they would have come.
    opens_by = expires_in if on_expiry == "deny" else EXPIRY_SECONDS_MAX + 1
    escalate = field("escalate", partial(_read_escalations, reading, opens_by), _DEFAULT.escalate)
    binding = field("binding", partial(reading.choice, options=("strict", "semantic")), _DEFAULT.binding)
    if on_expiry == "escalate" and not escalate:
        message = "'on_expiry: escalate' needs 'escalate' with at least one step"
        reading.refuse(fields["on_expiry"].node, f"{path}.on_expiry", message)
    return ApprovalRequirement(
        quorum=field("quorum", partial(reading.whole, low=1, high=QUORUM_MAX), _DEFAULT.quorum),
        groups=field("groups", partial(reading.texts, check=_group_problem), _DEFAULT.groups),
        self_approval=field("self_approval", reading.flag, _DEFAULT.self_approval),
        expires_in=expires_in,
        on_expiry=cast("OnExpiry", on_expiry),
        escalate=escalate,
        binding=cast("Binding", binding),
        require_hash=field("require_hash", reading.flag, _DEFAULT.require_hash),
        grace=field("grace", partial(reading.seconds, low=1, high=GRACE_SECONDS_MAX), _DEFAULT.grace),
    )


def _read_escalations(reading: Reading, opens_by: int, node: Node, path: str) -> tuple[Escalation, ...]:
    """The steps in the order of time. Each must open before `opens_by`, else it would do nothing."""
    steps = [
        (item, _read_escalation(reading, opens_by, item, at))
        for at, item in reading.items(node, path, ESCALATIONS_MAX)
    ]
    steps.sort(key=lambda each: each[1].after)
    for (_, earlier), (item, later) in pairwise(steps):
        if earlier.after == later.after and earlier.after:
            reading.refuse(item, path, "two steps open at the same time; make them one step with both groups")
    return tuple(step for _, step in steps)


def _read_escalation(reading: Reading, opens_by: int, node: Node, path: str) -> Escalation:
    fields = reading.fields(node, path, _ESCALATION, required=_ESCALATION)
    after = reading.field(
        fields, path, "after", partial(reading.seconds, low=1, high=EXPIRY_SECONDS_MAX), default=0
    )
    groups = reading.field(fields, path, "groups", partial(reading.texts, check=_group_problem), ())
    if after >= opens_by:
        message = "this step would open only after the request has expired; open it before 'expires_in'"
        reading.refuse(fields["after"].node, f"{path}.after", message)
    if "groups" in fields and not groups:
        reading.refuse(
            fields["groups"].node, f"{path}.groups", "name the groups that may decide from then on"
        )
    return Escalation(after=after, groups=groups)


def _group_problem(group: str) -> str | None:
    return None if group.strip() else "a group needs a name"


RULES_MAX = 1000
BURST_MAX = 100_000  # a full bucket is then still a number that every JSON reader holds exactly
REASON_MAX = 500

Syntax = Literal["yaml", "json", "auto"]

_DOCUMENT = ("version", "mode", "default", "rules")
_RULE = ("id", "when", "if", "decision", "approval", "throttle", "then", "reason")
_THROTTLE = ("rate", "burst", "key")
_WHEN = ("topic", "env", "channel", "actor", "tenant", "risk", "labels.<name>")
_LABEL = "labels."
_KEYS = ("tenant", "actor", "owner", "topic", "env", "channel")
_OUTCOMES = tuple(decision.value for decision in Decision if decision is not Decision.THROTTLE)
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)


class CheckedPolicy(NamedTuple):
    """A policy, and what in its text is allowed but may not be meant, in the order of the text."""

    document: PolicyDocument
    warnings: tuple[LocatedFault, ...]


def parse_policy(text: str | bytes, *, syntax: Syntax = "auto") -> PolicyDocument:
    """Read a policy in YAML or JSON; raise `SourceInvalid` with every error. `auto` tells them apart."""
    return check_policy(text, syntax=syntax).document


def check_policy(text: str | bytes, *, syntax: Syntax = "auto") -> CheckedPolicy:
    """Read a policy as `parse_policy` does, with its warnings."""
    source = read_source(decoded(text), is_json=None if syntax == "auto" else syntax == "json")
    reading = Reading(source)
    document = _read_document(reading, source.root)
    if reading.errors:
        raise SourceInvalid(reading.errors)
    warnings = sorted(reading.warnings, key=lambda each: (each.line, each.column))
    return CheckedPolicy(document, tuple(warnings[:ERRORS_MAX]))


def _read_document(reading: Reading, node: Node) -> PolicyDocument:
    fields = reading.fields(node, "", _DOCUMENT, required=("version",))
    field = partial(reading.field, fields, "")
    field("version", partial(reading.choice, options=("v1",)), "v1")
    return PolicyDocument(
        mode=PolicyMode(
            field("mode", partial(reading.choice, options=tuple(PolicyMode)), PolicyMode.ENFORCE)
        ),
        default=Decision(field("default", partial(reading.choice, options=_OUTCOMES), Decision.DENY)),
        rules=field("rules", partial(_read_rules, reading), ()),
    )


def _read_rules(reading: Reading, node: Node, path: str) -> tuple[Rule, ...]:
    rules: list[Rule] = []
    lines: dict[str, int] = {}
    for at, item in reading.items(node, path, RULES_MAX):
        rule = _read_rule(reading, item, at)
        rules.append(rule)
        if rule.id in lines and isinstance(item, Mapping):
            message = f"{rule.id!r} is already the rule on line {lines[rule.id]}; rename one of them"
            reading.refuse(item.entries["id"].node, f"{at}.id", message)
        elif rule.id:
            lines[rule.id] = reading.source.place_of(item.start).line
    return tuple(rules)


def _read_rule(reading: Reading, node: Node, path: str) -> Rule:
    fields = reading.fields(node, path, _RULE, required=("id", "decision"))
    field = partial(reading.field, fields, path)
    decision = field("decision", partial(reading.choice, options=tuple(Decision)), None)
    then = field("then", partial(reading.choice, options=_OUTCOMES), None)
    _check_throttling(reading, fields, path, is_throttle=decision in (None, Decision.THROTTLE))
    asks = Decision.REQUIRE_HUMAN in (decision, then)
    if "approval" in fields and not asks and decision is not None:
        message = "'approval' goes with require_human (as the decision or as 'then'); remove one of them"
        reading.refuse(fields["approval"].key, f"{path}.approval", message)
    return Rule(
        id=field("id", partial(reading.text, check=_id_problem), ""),
        decision=Decision(decision or Decision.DENY),
        when=field("when", partial(_read_when, reading), When()),
        if_=field("if", partial(_read_condition, reading), None),
        approval=field(
            "approval", partial(read_requirement, reading), ApprovalRequirement() if asks else None
        ),
        throttle=field("throttle", partial(_read_throttle, reading), None),
        then=Decision(then) if then else None,
        reason=field("reason", partial(reading.text, longest=REASON_MAX), None),
    )


def _check_throttling(reading: Reading, fields: dict[str, Entry], path: str, *, is_throttle: bool) -> None:
    def refuse(name: str, message: str) -> None:
        reading.refuse(fields[name].key, join(path, name), message)

    for name in ("throttle", "then"):
        if name in fields and not is_throttle:
            refuse(name, f"{name!r} goes with 'decision: throttle'; remove it or change the decision")
    if is_throttle and "throttle" in fields and "then" not in fields:
        refuse("throttle", "a rate needs 'then': what happens within it (allow, deny or require_human)")
    if is_throttle and "then" in fields and "throttle" not in fields:
        refuse("then", "'then' needs 'throttle' with a rate; without one the rule always throttles")


def _read_when(reading: Reading, node: Node, path: str) -> When:
    fields = reading.fields(node, path, _WHEN, open_prefix=_LABEL)
    read: dict[str, tuple[str, ...]] = {}
    for name, entry in fields.items():
        if name not in _WHEN and not name.startswith(_LABEL):
            continue
        check = topic_problem if name == "topic" else text_problem
        read[name] = reading.texts(entry.node, join(path, name), check=check)
        if name == _LABEL:
            reading.refuse(entry.key, join(path, name), "name the label after the dot: labels.<name>")
        elif isinstance(entry.node, Sequence) and not entry.node.items:
            message = "an empty list would match nothing; remove the field or list a value"
            reading.refuse(entry.node, join(path, name), message)
    labels = {name.removeprefix(_LABEL): read[name] for name in sorted(read) if name.startswith(_LABEL)}
    return When(labels=labels, **{name: read[name] for name in _WHEN[:-1] if name in read})


def _read_condition(reading: Reading, node: Node, path: str) -> str | None:
    if isinstance(node, Scalar) and isinstance(node.value, bool):  # `if: true` without quotes
        return str(node.value).lower()
    text = reading.text(node, path, longest=EXPRESSION_MAX)
    if text is None or not isinstance(node, Scalar):
        return None
    inside = partial(reading.source.offset_inside, node)
    try:
        for warning in compile_expression(text).warnings:
            reading.warn(inside(warning.offset), path, warning.message)
    except ExpressionInvalid as invalid:
        for problem in invalid.problems:
            reading.refuse(inside(problem.offset), path, problem.message)
    return text.strip()


def _read_throttle(reading: Reading, node: Node, path: str) -> Throttle:
    fields = reading.fields(node, path, _THROTTLE, required=("rate",))
    field = partial(reading.field, fields, path)
    rate = field("rate", partial(reading.parsed, parse=parse_rate), Rate(count=1, per="s"))
    burst = field("burst", partial(reading.whole, low=1, high=BURST_MAX), None)
    if burst is None and rate.count > BURST_MAX:
        reading.refuse(node, path, f"give 'burst', at most {BURST_MAX}: {rate} is too many at once")
    return Throttle(
        rate=finest(rate),
        burst=rate.count if burst is None else burst,
        key=field("key", partial(reading.text, check=_key_problem), "tenant"),
    )


def _id_problem(rule_id: str) -> str | None:
    if _ID.fullmatch(rule_id):
        return None
    return "an id is 1 to 100 letters, digits, dots, dashes or underscores, and begins with a letter or digit"


def _key_problem(key: str) -> str | None:
    if key in _KEYS or (key.startswith(_LABEL) and key != _LABEL):
        return None
    return f"no bucket can be kept by {key!r}; use {', '.join(_KEYS)} or labels.<name>"


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

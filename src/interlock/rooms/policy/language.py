"""The policy language: what a document can say, and its canonical form.

A document is a list of rules; the first that matches decides, and the default decides if none does. Every value here
has been checked and every default filled in (by `parser`), so two documents with the same meaning are equal, have the
same canonical form and the same snapshot id.
"""

from __future__ import annotations

import hashlib
import re
from enum import StrEnum
from typing import Literal, TypeAlias, cast

import msgspec

from interlock.kernel.codec.canonical import JsonLike, canonical
from interlock.kernel.codec.strict import JsonValue

COUNT_MAX = 1_000_000
PERIOD_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

Period: TypeAlias = Literal["s", "m", "h", "d"]
_WRITTEN = re.compile(r"([0-9]{1,7})/([smhd])", re.ASCII)


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """How many in each period."""

    count: int
    per: Period

    @property
    def period_seconds(self) -> int:
        """The length of the period."""
        return PERIOD_SECONDS[self.per]

    def __str__(self) -> str:
        """The rate as it is written."""
        return f"{self.count}/{self.per}"


def parse_rate(text: str) -> Rate:
    """Read a rate; raise `ValueError`, saying what is accepted, for anything else."""
    match = _WRITTEN.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{text!r} is not a rate; write a count and a period, such as 5/s, 10/m, 600/h or 1000/d"
        )
    count = int(match.group(1))
    if not 1 <= count <= COUNT_MAX:
        raise ValueError(f"{text!r} is out of range; a rate counts from 1 to {COUNT_MAX}")
    return Rate(count=count, per=cast("Period", match.group(2)))


def finest(rate: Rate) -> Rate:
    """The same rate over the shortest period that keeps its count whole: `600/h` is `10/m`."""
    for per, seconds in PERIOD_SECONDS.items():
        count, rest = divmod(rate.count * seconds, rate.period_seconds)
        if rest == 0:
            return Rate(count=count, per=cast("Period", per))
    return rate


DAY_SECONDS = 86_400
UNAVAILABLE = "unavailable"  # the decision shown for a job that could not be evaluated


class PolicyMode(StrEnum):
    """Whether decisions bind, or are only recorded."""

    ENFORCE = "enforce"
    OBSERVE = "observe"


class Decision(StrEnum):
    """What a policy can say of a job."""

    ALLOW = "allow"
    DENY = "deny"
    REQUIRE_HUMAN = "require_human"
    THROTTLE = "throttle"


OnExpiry: TypeAlias = Literal["deny", "escalate"]
Binding: TypeAlias = Literal["strict", "semantic"]


class Escalation(msgspec.Struct, frozen=True, kw_only=True):
    """From `after` seconds on, these groups may decide too."""

    after: int
    groups: tuple[str, ...]


class ApprovalRequirement(msgspec.Struct, frozen=True, kw_only=True):
    """What people must do: how many, who, and within `expires_in` seconds. No groups: any reviewer.

    For `grace` seconds after the deciding yes it may be taken back, and nobody may carry the job out.
    """

    quorum: int = 1
    groups: tuple[str, ...] = ()
    self_approval: bool = False
    expires_in: int = DAY_SECONDS
    on_expiry: OnExpiry = "deny"
    escalate: tuple[Escalation, ...] = ()
    binding: Binding = "strict"
    require_hash: bool = False
    grace: int = 0


class Throttle(msgspec.Struct, frozen=True, kw_only=True):
    """A token bucket: refilled at `rate`, holding at most `burst`, one for each value of `key`.

    `key` is `tenant` (one bucket for all), `actor`, `owner`, `topic`, `env`, `channel` or `labels.<name>`.
    """

    rate: Rate
    burst: int
    key: str = "tenant"


class When(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule applies to. Each field lists patterns, any of which will do; an empty one asks nothing."""

    topic: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    channel: tuple[str, ...] = ()
    actor: tuple[str, ...] = ()
    tenant: tuple[str, ...] = ()
    risk: tuple[str, ...] = ()
    labels: dict[str, tuple[str, ...]] = {}


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule. `approval` is there exactly where people are asked, `then` exactly where a bucket is."""

    id: str
    decision: Decision
    when: When = When()
    if_: str | None = None
    approval: ApprovalRequirement | None = None
    throttle: Throttle | None = None
    then: Decision | None = None
    reason: str | None = None


class PolicyDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A whole policy."""

    version: Literal["v1"] = "v1"
    mode: PolicyMode = PolicyMode.ENFORCE
    default: Decision = Decision.DENY
    rules: tuple[Rule, ...] = ()


def canonical_policy(document: PolicyDocument) -> bytes:
    """The one spelling (RFC 8785) of what a document means; reading it again gives an equal document."""
    return canonical(
        {
            "version": document.version,
            "mode": document.mode.value,
            "default": document.default.value,
            "rules": [_rule(rule) for rule in document.rules],
        }
    )


def snapshot_id(document: PolicyDocument | bytes) -> str:
    """The address of a document, or of its canonical form: `sha256:…` over that form."""
    spelled = document if isinstance(document, bytes) else canonical_policy(document)
    return f"sha256:{hashlib.sha256(spelled).hexdigest()}"


def duration_text(seconds: int) -> str:
    """A duration in the largest unit that keeps it whole: 14400 is `4h`."""
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds % size == 0 and seconds:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _rule(rule: Rule) -> JsonLike:
    spelled: dict[str, JsonLike] = {"id": rule.id, "when": _when(rule.when), "decision": rule.decision.value}
    if rule.if_ is not None:
        spelled["if"] = rule.if_
    if rule.approval is not None:
        spelled["approval"] = _approval(rule.approval)
    if rule.throttle is not None:
        throttle = rule.throttle
        spelled["throttle"] = {"rate": str(throttle.rate), "burst": throttle.burst, "key": throttle.key}
    if rule.then is not None:
        spelled["then"] = rule.then.value
    if rule.reason is not None:
        spelled["reason"] = rule.reason
    return spelled


def _when(when: When) -> JsonLike:
    fields = {name: getattr(when, name) for name in ("topic", "env", "channel", "actor", "tenant", "risk")}
    labels = {f"labels.{name}": patterns for name, patterns in when.labels.items()}
    return {name: list(patterns) for name, patterns in (fields | labels).items() if patterns}


def _approval(approval: ApprovalRequirement) -> JsonLike:
    spelled: dict[str, JsonLike] = {
        "quorum": approval.quorum,
        "groups": list(approval.groups),
        "self_approval": approval.self_approval,
        "expires_in": duration_text(approval.expires_in),
        "on_expiry": approval.on_expiry,
        "escalate": [
            {"after": duration_text(step.after), "groups": list(step.groups)} for step in approval.escalate
        ],
        "binding": approval.binding,
    }
    # Spelled only where they are asked for, so that a policy without them keeps the name that it had.
    if approval.require_hash:
        spelled["require_hash"] = True
    if approval.grace:
        spelled["grace"] = duration_text(approval.grace)
    return spelled


class Actor(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks. `owner` is the person whom an agent or worker acts for, if there is one."""

    id: str
    kind: str = "person"
    groups: tuple[str, ...] = ()
    owner: str = ""


class PolicyInput(msgspec.Struct, frozen=True, kw_only=True):
    """One job as the policy sees it. An absent env or channel is the empty text; `payload` is parsed JSON."""

    topic: str
    actor: Actor
    tenant: str = "default"
    env: str = ""
    channel: str = ""
    labels: dict[str, str] = {}
    risk: tuple[str, ...] = ()
    payload: JsonValue = msgspec.field(default_factory=dict[str, JsonValue])
    priority: str = "normal"

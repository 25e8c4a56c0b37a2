"""What a rule asks of people, out of its `approval`."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import cast

from interlock.codec.located import Node
from interlock.policy.language import DAY_SECONDS, ApprovalRequirement, Binding, Escalation, OnExpiry
from interlock.policy.reading import Reading

QUORUM_MAX = 50
ESCALATIONS_MAX = 10
EXPIRY_SECONDS_MAX = 366 * DAY_SECONDS

_APPROVAL = (
    "quorum",
    "groups",
    "self_approval",
    "expires_in",
    "on_expiry",
    "escalate",
    "binding",
    "require_hash",
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

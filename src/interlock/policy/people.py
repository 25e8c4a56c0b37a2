"""What is decided where whoever submits a job asks people too: never less than the policy asks for.

A task in `interlock.yaml` says that people decide, and of which groups. A rule that denies stands. Where no rule
speaks of a command, people may: each of them could issue a grant for it as well.
"""

from __future__ import annotations

import msgspec

from interlock.jobs.model import Action
from interlock.policy.evaluate import Evaluation, past_throttle
from interlock.policy.language import ApprovalRequirement, Decision

COMMAND_TOPICS = "exec."


def with_people(said: Evaluation, action: Action, *, observing: bool) -> Evaluation:
    """What the policy said, with people asked where it would release the action or does not know of it."""
    if action.people is None:
        return said
    if observing:
        said = msgspec.structs.replace(said, decision=Decision.ALLOW, approval=None, throttle=None, then=None)
    decided = past_throttle(said)
    is_command = action.topic.startswith(COMMAND_TOPICS)
    is_unknown = is_command and decided.decision is Decision.DENY and decided.rule is None
    if decided.decision is Decision.REQUIRE_HUMAN:
        reason = said.reason
    elif decided.decision is Decision.ALLOW or is_unknown:
        reason = f"{said.reason}; whoever submitted it asks people"
    else:
        return said
    asked = decided.approval or ApprovalRequirement()
    both = tuple(group for group in asked.groups if group in action.people.groups)
    asked = msgspec.structs.replace(asked, groups=both or asked.groups or action.people.groups)
    if said.then is None:
        return msgspec.structs.replace(said, decision=Decision.REQUIRE_HUMAN, approval=asked, reason=reason)
    return msgspec.structs.replace(said, then=Decision.REQUIRE_HUMAN, approval=asked, reason=reason)

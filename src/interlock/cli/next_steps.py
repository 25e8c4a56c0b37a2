"""The next step of a problem as a command: which command does what an operation of the API does.

Whatever a refusal may name stands here; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote
from typing import TYPE_CHECKING

from interlock.wire.problem import with_next

if TYPE_CHECKING:
    from interlock.wire.problem import NextStep

COMMANDS: Mapping[str, str] = {
    "acquire_lease": "lease acquire {resource} --wait {wait_seconds}s",
    "add_signer": "signer add {public_key}",
    "cancel_job": "cancel {job_id}",
    "cancel_run": "runs cancel {run_id}",
    "evaluate_policy": "policy evaluate {topic}",
    "get_approval": "approval {job_id}",
    "get_conflict": "conflict show {conflict_id}",
    "get_effect": "effect show {action_id}",
    "get_grant": "grants {grant_id}",
    "get_job": "job {job_id}",
    "get_lease": "lease show {lease_id}",
    "get_run": "workflow run {run_id}",
    "issue_grant": "grant {task}",
    "job_history": "job {job_id} --history",
    "put_policy": "policy apply FILE",
    "refresh_approval": "refresh {job_id}",
    "reject_job": "reject {job_id} --reason TEXT",
    "resolve_effect": "effect resolve {action_id} committed|not_committed --evidence TEXT",
    "revoke_api_key": "key revoke {key_id}",
    "start_run": "runs start {workflow} --wait {wait_seconds}s",
    "submit_job": "submit {topic} --payload {payload}",
}
# Where the same operation is asked for differently: what else it needs decides.
NEEDING: Mapping[tuple[str, tuple[str, ...]], str] = {
    ("issue_grant", ("signature",)): "grant {task} --sign-with KEYFILE",
}


def in_shell(sentence: str, step: NextStep | None) -> str:
    """The sentence with the next step as a command; as its route, if a newer service names one without a command."""
    if step is None:
        return sentence
    words = NEEDING.get((step.operation, step.needs)) or COMMANDS.get(step.operation)
    if words is None:
        return with_next(sentence, step.route)
    return with_next(sentence, f"`interlock {words.format_map(_Values(step.arguments))}`")


class _Values(dict[str, str]):
    """Arguments as a shell takes them; one that only the caller knows is its name in capitals."""

    def __init__(self, arguments: Mapping[str, object]) -> None:
        super().__init__({name: quote(str(value)) for name, value in arguments.items()})

    def __missing__(self, name: str) -> str:
        return name.upper()

"""The next step of a problem as Python: which method of a client does what an operation of the API does.

Whatever a refusal may name stands here; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping

from interlock.wire.problem import NextStep, Wording

METHODS: Mapping[str, str] = {
    "acquire_lease": "acquire_lease({resource}, wait_seconds={wait_seconds})",
    "add_signer": "add_signer({public_key})",
    "cancel_job": "cancel_job({job_id})",
    "cancel_run": "cancel_run({run_id})",
    "evaluate_policy": "evaluate_policy({{'topic': {topic}}})",
    "get_approval": "get_approval({job_id})",
    "get_conflict": "get_conflict({conflict_id})",
    "get_effect": "get_effect({action_id})",
    "get_grant": "get_grant({grant_id})",
    "get_job": "get_job({job_id})",
    "get_lease": "get_lease({lease_id})",
    "get_policy": "get_policy()",
    "get_run": "get_run({run_id})",
    "issue_grant": "issue_grant({task})",
    "job_history": "get_job_history({job_id})",
    "put_policy": "apply_policy({policy})",
    "refresh_approval": "refresh({job_id})",
    "reject_job": "reject({job_id}, reason={reason})",
    "resolve_effect": "resolve_effect({action_id}, {outcome}, {evidence})",
    "revoke_api_key": "revoke_api_key({key_id})",
    "start_run": "start_run({workflow}, wait_seconds={wait_seconds})",
    "submit_job": "submit({topic}, {payload})",
}
# Where the same operation is asked for differently: what else it needs decides.
NEEDING: Mapping[tuple[str, tuple[str, ...]], str] = {
    ("issue_grant", ("signature",)): "issue_grant({task}, signature={signature})",
}
_WORDING = Wording(templates=METHODS, needing=NEEDING, frame="il.{}", known=repr)


def in_python(sentence: str, step: NextStep | None) -> str:
    """The sentence with the next step as a call of `il`, a client."""
    return _WORDING.add_to(sentence, step)

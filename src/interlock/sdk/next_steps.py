"""The next step of a problem as Python: which method of a client does what an operation of the API does.

Whatever a refusal may name stands here; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping

from interlock.wire.problem import NextStep, Wording

METHODS: Mapping[str, str] = {
    "acquire_lease": "acquire_lease({resource}, wait_seconds={wait_seconds})",
    "add_signer": "signer_add({public_key})",
    "cancel_job": "cancel({job_id})",
    "cancel_run": "cancel_run({run_id})",
    "evaluate_policy": "policy_evaluate({{'topic': {topic}}})",
    "get_approval": "approval({job_id})",
    "get_conflict": "conflict({conflict_id})",
    "get_effect": "get_effect({action_id})",
    "get_grant": "grant_get({grant_id})",
    "get_job": "job({job_id})",
    "get_lease": "lease_record({lease_id})",
    "get_policy": "policy_get()",
    "get_run": "workflow_run({run_id})",
    "issue_grant": "grant({task})",
    "job_history": "history({job_id})",
    "put_policy": "policy_put({policy})",
    "refresh_approval": "refresh({job_id})",
    "reject_job": "reject({job_id}, reason={reason})",
    "resolve_effect": "resolve_effect({action_id}, {outcome}, {evidence})",
    "revoke_api_key": "call('POST', 'api-keys', {key_id}, 'revoke')",
    "start_run": "start_run({workflow}, wait_seconds={wait_seconds})",
    "submit_job": "submit({topic}, {payload})",
}
# Where the same operation is asked for differently: what else it needs decides.
NEEDING: Mapping[tuple[str, tuple[str, ...]], str] = {
    ("issue_grant", ("signature",)): "grant({task}, signature={signature})",
}
_WORDING = Wording(templates=METHODS, needing=NEEDING, frame="il.{}", known=repr)


def in_python(sentence: str, step: NextStep | None) -> str:
    """The sentence with the next step as a call of `il`, a client."""
    return _WORDING.add_to(sentence, step)

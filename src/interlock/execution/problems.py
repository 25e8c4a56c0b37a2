"""Problems that are found here, by reading a record, laid out as a service lays out the ones that it answers with."""

from __future__ import annotations

from interlock.sdk.problems import Problem

# What a service never answers with: people's no, and a task file that asks for more than the policy.
_OF_OURS = {"rejected": (409, "Rejected"), "approval_required": (403, "Approval required")}


def problem_here(code: str, detail: str, **members: object) -> Problem:
    """The problem called `code`, with all that every problem document has."""
    from interlock.api.problem import Problem as Told
    from interlock.api.problem import problem

    if code in _OF_OURS:
        status, title = _OF_OURS[code]
        told = Told(code=code, title=title, status=status, detail=detail, retryable=False, members=members)
        document = {**told.document(), "type": "about:blank"}  # no page of a service explains it
    else:
        told = problem(code, detail, members=members)
        document = told.document()
    wait_ms = told.retry_after_ms
    return Problem(
        status=told.status,
        code=told.code,
        title=told.title,
        detail=told.detail,
        retryable=told.retryable,
        retry_after_seconds=None if wait_ms is None else wait_ms / 1000,
        fields=document,
    )

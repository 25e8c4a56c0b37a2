"""A question that a workflow asked, asked again: nobody's yes to the first counts for the second."""

from __future__ import annotations

from tests.harness.in_process_api import InProcessApi

ALLOW = "version: v1\ndefault: allow\n"
AGREE = {"steps": [{"id": "agree", "kind": "approval", "quorum": 2}]}


async def ask(api: InProcessApi) -> str:
    """Start a run that waits for two people; returns the question."""
    await api.policy(ALLOW)
    await api.call("PUT", "workflows/report", api.admin, AGREE)
    await api.call("POST", "workflows/report/runs", api.admin, {})
    await api.service.workflows.advance_all()
    (question,) = (await api.get("approvals?state=pending"))["items"]
    return question["id"]


async def test_a_question_that_nobody_answered_in_time_is_not_asked_again(api: InProcessApi) -> None:
    question, ada = await ask(api), await api.person("ada")
    api.clock.advance(366 * 86_400)

    seen = await api.call("POST", f"approvals/{question}/refresh", ada, {})

    assert (seen.status, seen.word, seen.document["state"]) == (409, "not_actionable", "EXPIRED")


async def test_a_refresh_of_a_question_clears_its_votes(api: InProcessApi) -> None:
    question, ada, bob = await ask(api), await api.person("ada"), await api.person("bob")
    assert (await api.approve(question, ada)).word == "vote_recorded"
    now_in_force = await api.policy("version: v1\ndefault: deny\n")
    api.clock.advance(60)

    await api.call("POST", f"approvals/{question}/refresh", ada, {})
    shown = await api.get(f"approvals/{question}", bob)
    first = await api.approve(question, bob)

    assert (shown["votes"], shown["approval"]["requested_at"]) == ([], "2030-01-01T00:01:00Z")
    assert (shown["drift"]["policy_changed"], shown["drift"]["submitted_under"]) == (False, now_in_force)
    assert (first.word, first.document["votes"]) == ("vote_recorded", 1)
    assert (await api.approve(question, ada)).word == "approved"


async def test_that_a_question_was_answered_is_in_the_audit(api: InProcessApi) -> None:
    question = await ask(api)
    for name in ("ada", "bob"):
        await api.approve(question, await api.person(name))

    await api.service.workflows.advance_all()

    assert (await api.get(f"jobs/{question}"))["state"] == "SUCCEEDED"
    assert (await api.audit(question))[-2:] == [("approve", "done"), ("answer", "done")]

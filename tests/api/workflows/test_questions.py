"""A question that a workflow asked, asked again: nobody's yes to the first counts for the second."""

from __future__ import annotations

from tests.harness.in_process_api import Stage

ALLOW = "version: v1\ndefault: allow\n"
AGREE = {"steps": [{"id": "agree", "kind": "approval", "quorum": 2}]}


async def ask(stage: Stage) -> str:
    """Start a run that waits for two people; returns the question."""
    await stage.policy(ALLOW)
    await stage.call("PUT", "workflows/report", stage.admin, AGREE)
    await stage.call("POST", "workflows/report/runs", stage.admin, {})
    await stage.service.workflows.advance_all()
    (question,) = (await stage.get("approvals?state=pending"))["items"]
    return question["id"]


async def test_a_question_that_nobody_answered_in_time_is_not_asked_again(stage: Stage) -> None:
    question, ada = await ask(stage), await stage.person("ada")
    stage.clock.advance(366 * 86_400)

    seen = await stage.call("POST", f"approvals/{question}/refresh", ada, {})

    assert (seen.status, seen.word, seen.document["state"]) == (409, "not_actionable", "EXPIRED")


async def test_a_refresh_of_a_question_clears_its_votes(stage: Stage) -> None:
    question, ada, bob = await ask(stage), await stage.person("ada"), await stage.person("bob")
    assert (await stage.approve(question, ada)).word == "vote_recorded"
    now_in_force = await stage.policy("version: v1\ndefault: deny\n")
    stage.clock.advance(60)

    await stage.call("POST", f"approvals/{question}/refresh", ada, {})
    shown = await stage.get(f"approvals/{question}", bob)
    first = await stage.approve(question, bob)

    assert (shown["votes"], shown["approval"]["requested_at"]) == ([], "2030-01-01T00:01:00Z")
    assert (shown["drift"]["policy_changed"], shown["drift"]["submitted_under"]) == (False, now_in_force)
    assert (first.word, first.document["votes"]) == ("vote_recorded", 1)
    assert (await stage.approve(question, ada)).word == "approved"


async def test_that_a_question_was_answered_is_in_the_audit(stage: Stage) -> None:
    question = await ask(stage)
    for name in ("ada", "bob"):
        await stage.approve(question, await stage.person(name))

    await stage.service.workflows.advance_all()

    assert (await stage.get(f"jobs/{question}"))["state"] == "SUCCEEDED"
    assert (await stage.audit(question))[-2:] == [("approve", "done"), ("answer", "done")]

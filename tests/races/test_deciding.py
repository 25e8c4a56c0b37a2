"""Many people decide one job at one moment, over HTTP, on one server or on two: one wins, all are told."""

from __future__ import annotations

import pytest

from tests.harness.load import Answer, tally
from tests.races.deployment import Deployment

DECIDING = {"approved": "PENDING", "rejected": "DENIED"}


@pytest.mark.parametrize("callers", [20, 200, 500])
async def test_of_many_approves_one_decides_and_all_others_learn_of_it(
    deployment: Deployment, callers: int
) -> None:
    job = await deployment.submit()

    answers = await deployment.ask(*(deployment.approve(job, n) for n in range(callers)), connections=callers)

    assert tally(answers) == {(200, "approved"): 1, (200, "already_approved"): callers - 1}
    assert len({answer.json()["decision_id"] for answer in answers}) == 1
    events, audit = await deployment.account(job)
    assert events == {"approval.requested": 1, "approval.approved": 1}
    assert audit == {"submit": 1, "approve": 1}
    assert (await deployment.job(job))["state"] == "PENDING"


@pytest.mark.parametrize("callers", [20, 200, 500])
async def test_of_approves_and_rejects_one_decides_and_the_losers_are_named_the_winner(
    deployment: Deployment, callers: int
) -> None:
    job = await deployment.submit()

    answers = await deployment.ask(
        *((deployment.reject if n % 2 else deployment.approve)(job, n) for n in range(callers)),
        connections=callers,
    )

    winners = [answer for answer in answers if answer.word in DECIDING]
    assert len(winners) == 1
    winner = winners[0]
    for n, answer in enumerate(answers):
        if answer is not winner:
            check_loser(answer, "reject" if n % 2 else "approve", winner)
    after = await deployment.job(job)
    assert after["state"] == DECIDING[winner.word]
    assert after["approval"]["decision_id"] == winner.json()["decision_id"]
    events, audit = await deployment.account(job)
    assert events == {"approval.requested": 1, f"approval.{winner.word}": 1}
    assert audit["approve"] + audit["reject"] == 1
    assert audit["approve"] == (winner.word == "approved")


def check_loser(answer: Answer, verb: str, winner: Answer) -> None:
    document, decided = answer.json(), winner.json()
    same_way = decided["outcome"].startswith(verb)
    assert (answer.status, answer.word) == (200 if same_way else 409, f"already_{decided['outcome']}")
    assert document["decision_id"] == decided["decision_id"]
    assert document["decided_by"] == decided["decided_by"]
    assert document["decided_at"] == decided["decided_at"]


async def test_of_many_votes_exactly_the_quorum_is_recorded(deployment: Deployment) -> None:
    job = await deployment.submit("pay.three")

    answers = await deployment.ask(*(deployment.approve(job, n) for n in range(200)), connections=200)

    counted = tally(answers)
    assert counted[200, "approved"] == 1
    assert set(counted) == {(200, "approved"), (200, "already_approved"), (200, "vote_recorded")}
    events, audit = await deployment.account(job)
    assert (events["approval.vote_recorded"], events["approval.approved"]) == (2, 1)
    assert (audit["vote"], audit["approve"]) == (2, 1)
    votes = (await deployment.job(job))["approval"]["votes"]
    assert len({vote["principal"] for vote in votes}) == len(votes) == 3


async def test_many_jobs_decided_at_once_are_each_decided_once(deployment: Deployment) -> None:
    jobs = [await deployment.submit() for _ in range(20)]

    answers = await deployment.ask(
        *(
            (deployment.reject if (n + turn) % 3 == 0 else deployment.approve)(job, n + turn)
            for turn in range(20)
            for n, job in enumerate(jobs)
        ),
        connections=100,
    )

    assert {answer.status for answer in answers} <= {200, 409}
    for n, job in enumerate(jobs):
        words = [answer.word for answer in answers[n :: len(jobs)]]
        assert sum(word in DECIDING for word in words) == 1
        events, audit = await deployment.account(job)
        assert events["approval.approved"] + events["approval.rejected"] == 1
        assert audit["approve"] + audit["reject"] == 1

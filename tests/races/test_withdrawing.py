"""A withdrawal meets claims as the grace ends, over HTTP, on one server or on two: one side wins, never both."""

from __future__ import annotations

import asyncio
from datetime import datetime

import pytest

from tests.races.deployment import HANG_SECONDS, Deployment

JOBS = 6
PAUSE_SECONDS = 0.005


@pytest.mark.parametrize("executor", ["worker", "caller"])
async def test_of_withdrawals_and_claims_at_the_end_of_the_grace_one_side_wins(
    deployment: Deployment, executor: str
) -> None:
    outcomes = await asyncio.gather(
        *(_race(deployment, executor, late=number / JOBS) for number in range(JOBS))
    )

    for job, grace_until, withdrawn, claimed in outcomes:
        assert withdrawn + claimed == 1, (job, withdrawn, claimed)
        after = await deployment.job(job)
        assert after["state"] == ("APPROVAL" if withdrawn else "RUNNING")
        # By the store's clock, whichever server decided: a withdrawal within the grace, a claim after it.
        assert (datetime.fromisoformat(after["updated_at"]) < grace_until) == bool(withdrawn)
        _, audit = await deployment.account(job)
        assert (audit["withdraw"], audit["claim"]) == (withdrawn, claimed)


async def _race(deployment: Deployment, executor: str, *, late: float) -> tuple[str, datetime, int, int]:
    """Claim and withdraw until one of them wins; the withdrawals begin nearer and nearer to the end of the grace."""
    who = "bot" if executor == "caller" else "hand"
    job = await deployment.submit("pay.grace", executor=executor)
    (approved,) = await deployment.ask(deployment.approve(job))
    assert approved.word == "approved", approved.body
    withdrawn = claimed = 0
    begins = asyncio.get_running_loop().time() + 0.9 + late * 0.2
    gives_up = begins + HANG_SECONDS
    while not (claimed or withdrawn) and asyncio.get_running_loop().time() < gives_up:
        requests = [deployment.claim(job, who)]
        if asyncio.get_running_loop().time() >= begins:
            requests.append(deployment.withdraw(job))
        answers = await deployment.ask(*requests)
        claimed += answers[0].status == 200
        withdrawn += any(answer.word == "withdrawn" for answer in answers[1:])
        await asyncio.sleep(PAUSE_SECONDS)
    # The loser is told so, and stays the loser.
    late_claim, late_withdrawal = await deployment.ask(deployment.claim(job, who), deployment.withdraw(job))
    assert late_claim.status == 409
    assert (late_withdrawal.status, late_withdrawal.word) == (409, "not_actionable")
    return job, datetime.fromisoformat(approved.json()["grace_until"]), withdrawn, claimed

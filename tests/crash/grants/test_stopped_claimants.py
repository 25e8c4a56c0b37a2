"""A claimant that is stopped or killed inside its own claim: nobody waits beyond the budget, nobody wins twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock import Interlock
from interlock.service.local_kernel import LocalKernel
from tests.harness.postgres import PostgresServer
from tests.harness.processes import wait_until_gone
from tests.races.grants.claimant_processes import Claimant, ClaimantProcesses

NO = {"claimed": False, "grant_id": None, "use": None}


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store of each kind."""
    if request.param == "postgres":
        postgres: PostgresServer = request.getfixturevalue("postgres")
        return postgres.create_database()
    return f"sqlite:///{tmp_path / 'interlock.db'}"


@pytest.fixture
def person(store_url: str) -> Iterator[Interlock]:
    """The store's own user."""
    LocalKernel(store_url).close()  # makes the store
    with Interlock(store=store_url) as client:
        yield client


@pytest.fixture
def claimants(person: Interlock, store_url: str) -> Iterator[ClaimantProcesses]:
    """Three claimants on the store itself."""
    gathered = ClaimantProcesses([(store_url, None)], size=3)
    yield gathered
    gathered.close()


def test_a_claimant_stopped_inside_its_claim_keeps_others_waiting_for_the_budget_at_most(
    person: Interlock, claimants: ClaimantProcesses
) -> None:
    grant = person.issue_grant("race")
    stopped, *others = claimants.members
    stopped.ask(task="race", execution_id="stopped", stop=True)
    _wait_until_stopped(stopped.process.pid)

    for number, other in enumerate(others):
        other.ask(task="race", execution_id=f"other-{number}")
    answers = [other.answer() for other in others]

    # Nobody hangs: each is told that it is busy, or, where the store ends a transaction that stands still, who won.
    assert all(answer is not None for answer in answers)
    assert {answer.get("error", "LockBusy") for answer in answers} == {"LockBusy"}
    os.kill(stopped.process.pid, signal.SIGCONT)
    late = stopped.answer()
    after = [_ask(other, f"again-{number}") for number, other in enumerate(others)]
    winners = [answer for answer in [*answers, late, *after] if answer.get("claimed")]
    assert winners == [{"claimed": True, "grant_id": grant.id, "use": 1}]
    assert person.get_grant(grant.id).used == 1


def test_a_claimant_killed_inside_its_claim_leaves_the_grant_to_the_next(
    person: Interlock, claimants: ClaimantProcesses
) -> None:
    grant = person.issue_grant("race", uses=2)
    doomed, *others = claimants.members
    doomed.ask(task="race", execution_id="doomed", die=True)
    wait_until_gone([doomed.process.pid])
    doomed.process.wait(30)

    answers = [_ask(other, f"other-{number}") for number, other in enumerate(others)]

    assert answers == [{"claimed": True, "grant_id": grant.id, "use": use} for use in (1, 2)]
    assert _ask(others[0], "late") == NO
    ledger = person.call("GET", "grants", "ledger")
    assert (ledger["claimed"], ledger["uneven"]) == (2, [])


def _ask(claimant: Claimant, execution_id: str) -> dict[str, object]:
    """Claim, again while another process's lock is still being cleared away."""
    for _ in range(20):
        claimant.ask(task="race", execution_id=execution_id)
        answer = claimant.answer()
        if "error" not in answer:
            return answer
    raise AssertionError("the store stays locked")


def _wait_until_stopped(pid: int) -> None:
    while os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT) is None:
        pass

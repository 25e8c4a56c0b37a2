"""Processes on one SQLite file that decide for each other, killed and stopped at random: nothing is lost or doubled."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

import pytest

from interlock.kernel.ids import new_id
from interlock.rooms.grants.model import GRANT_USES, GRANTS, GrantState
from interlock.rooms.grants.rules import IssueGrant
from interlock.service.local_kernel import LocalKernel
from interlock.store.sqlite.driver import connect
from tests.harness.soak import dose
from tests.races.grants.claimant_processes import Claimant
from tests.races.grants.claimant_program import CLIENT

TASK, PATTERN = "race", "pattern-of-race"
SIZE = 6
BLOWS = 30
SUPPLY = 4_000
STOPPED_SECONDS = 0.3
STOPPED_PAST_THE_BUDGET = 2.5
PATIENCE = 60  # a hang guard
BUSY = ("LockBusy", "lock_busy")


class PersistentClaimants:
    """Claimants that go on claiming, whatever happens to them, and what each of them was told."""

    def __init__(self, store_url: str) -> None:
        self._url = store_url
        self._members = [self._claimant() for _ in range(SIZE)]
        self._asked: dict[Claimant, str] = {}
        self.told: dict[str, dict[str, Any]] = {}
        for member in self._members:
            assert member.answer() is not None
            self._ask(member)

    def go_on(self, seconds: float) -> None:
        """Let them claim for so long."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            outputs = {cast("IO[bytes]", member.process.stdout): member for member in self._members}
            ready, _, _ = select.select(list(outputs), [], [], left)
            for output in ready:
                self._hear(outputs[output])

    def kill(self) -> None:
        """Kill one in the middle of what it does; another takes its place."""
        victim = random.choice(self._members)
        os.kill(victim.process.pid, signal.SIGKILL)
        victim.process.wait(PATIENCE)
        # What it said before it died counts.
        while (answer := victim.answer()) is not None:
            self._note(victim, answer)
        victim.close()
        self._members.remove(victim)
        successor = self._claimant()
        assert successor.answer() is not None
        self._members.append(successor)
        self._ask(successor)

    def stop(self, seconds: float) -> None:
        """Stop one in the middle of what it does, for so long."""
        victim = random.choice(self._members)
        os.kill(victim.process.pid, signal.SIGSTOP)
        self.go_on(seconds)
        os.kill(victim.process.pid, signal.SIGCONT)

    def finish(self) -> None:
        """Hear the last answers."""
        for member in self._members:
            answer = member.answer(PATIENCE)
            assert answer is not None
            self._note(member, answer)

    def close(self) -> None:
        for member in self._members:
            member.close()

    def _claimant(self) -> Claimant:
        """One that claims as `interlock exec` does, or one that claims through `il.claim_grant`."""
        return Claimant(random.choice(["", CLIENT]) + self._url)

    def _hear(self, member: Claimant) -> None:
        answer = member.answer()
        assert answer is not None, "a claimant ended by itself"
        self._note(member, answer)
        self._ask(member)

    def _ask(self, member: Claimant) -> None:
        self._asked[member] = execution_id = new_id("exec")
        member.ask(task=TASK, execution_id=execution_id)

    def _note(self, member: Claimant, answer: dict[str, Any]) -> None:
        self.told[self._asked.pop(member)] = answer


@pytest.fixture
def store_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'interlock.db'}"


@pytest.fixture
def claimants(store_url: str) -> Iterator[PersistentClaimants]:
    _supply(store_url)
    claimants = PersistentClaimants(store_url)
    yield claimants
    claimants.close()


def test_processes_that_decide_for_each_other_may_be_killed_and_stopped_at_any_moment(
    claimants: PersistentClaimants, store_url: str
) -> None:
    for blow in range(dose(BLOWS)):
        claimants.go_on(random.uniform(0.0, 0.1))
        if blow % 3:
            claimants.kill()
        else:
            claimants.stop(STOPPED_SECONDS if blow % 15 else STOPPED_PAST_THE_BUDGET)
        if blow % 8 == 7:
            _supply(store_url)
    claimants.finish()
    uses = _uses(store_url)
    told = claimants.told
    won = {execution: answer for execution, answer in told.items() if answer.get("claimed")}
    print(f"{len(told)} answers, {len(won)} won,", Counter(answer.get("error") for answer in told.values()))

    # Everything that a claimant was told is so.
    assert {execution: (answer["grant_id"], answer["use"]) for execution, answer in won.items()} == {
        execution: uses[execution] for execution in won
    }
    # A claimant that was told that the file was busy has nothing.
    assert not [execution for execution in uses if told.get(execution, {}).get("error") in BUSY]
    # No grant was used twice, and every use is recorded once.
    assert len({grant for grant, _ in uses.values()}) == len(uses)
    assert _count(store_url, "audit_entries WHERE action = 'grant_claim'") == len(uses)
    assert _count(store_url, f"{GRANTS.table} WHERE state = '{GrantState.SPENT.value}'") == len(uses)
    assert len(won) > SIZE


def _supply(store_url: str) -> None:
    """That many grants, as copies of one that nobody claims."""
    store = LocalKernel(store_url, acquire_seconds=PATIENCE)
    issued = store.run(
        IssueGrant(caller=store.caller, grant_id=new_id("gnt"), task=PATTERN, expires_seconds=3600)
    )
    store.close()
    database = connect(store_url.removeprefix("sqlite:///"))
    database.set_busy_timeout(PATIENCE * 1000)
    columns = [row[1] for row in database.execute(f"PRAGMA table_info({GRANTS.table})").fetchall()]
    others = ", ".join(name for name in columns if name not in ("id", "body", "task"))
    database.execute("BEGIN IMMEDIATE")
    for _ in range(SUPPLY):
        copy = new_id("gnt")
        database.execute(
            f"INSERT INTO {GRANTS.table} (id, task, body, {others}) "
            f"SELECT ?1, ?3, replace(replace(body, id, ?1), task, ?3), {others} "
            f"FROM {GRANTS.table} WHERE id = ?2",
            (copy, issued.id, TASK),
        )
    database.execute("COMMIT")
    database.close()


def _uses(store_url: str) -> dict[str, tuple[str, int]]:
    """By execution, what is recorded."""
    database = connect(store_url.removeprefix("sqlite:///"))
    bodies = database.execute(f"SELECT body FROM {GRANT_USES.table}").fetchall()
    database.close()
    found = [json.loads(body) for (body,) in bodies]
    assert len({use["execution_id"] for use in found}) == len(found)
    return {use["execution_id"]: (use["grant_id"], use["use"]) for use in found}


def _count(store_url: str, what: str) -> int:
    database = connect(store_url.removeprefix("sqlite:///"))
    try:
        return database.execute(f"SELECT count(*) FROM {what}").get
    finally:
        database.close()

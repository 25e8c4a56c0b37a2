"""Claims of one-shot grants by eight processes, beside histories of spent grants: rate, fairness, p99.

A tool with a lock file that scans its log was measured on two quiet cores with 110 to 230 claims a second at 100
records of history, 9 to 19 at 5,000, and 3 to 8 % of the claims timing out. The goals are multiples of the best of
these figures. In turns with ours runs the simplest tool of that design (`bench/lock_file.py`). It is two to three times
as quick as the measured tool, and times out nothing; its figures are of this machine, now. The upper bound for eight
processes that commit one by one is measured too: the statements of a claim, with nothing decided.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path

import msgspec
from msgspec.structs import replace

from bench import lock_file
from bench.claimant import BARE, CLIENT, Claimed
from bench.report import figure, in_turns, over, quantile, ratio, title
from bench.scene import folder
from interlock.kernel.ids import new_id
from interlock.rooms.grants.claims import ClaimGrant
from interlock.rooms.grants.model import GRANT_USES, GRANTS, Grant, GrantUse
from interlock.rooms.grants.rules import IssueGrant
from interlock.rooms.grants.uses import use_id
from interlock.service.local_kernel import LocalKernel
from interlock.store.sqlite.driver import connect
from interlock.store.statements import insert_one
from tests.harness.server import InterlockServer, clean_env

PROCESSES = 8
SECONDS = 0.8
TURNS = 15
HISTORIES = (100, 5_000, 100_000)
SUPPLY = 80_000
# By history: the best that was measured of a tool with a lock file, and how many times that is the goal.
LOCK_FILE = {100: (230, 3), 5_000: (19, 30)}
ROOT = Path(__file__).parents[1]
TASK = "bench"


class Contest:
    """Eight processes that claim in one way from one place, in turns with others."""

    def __init__(self, *place: str, prepared: Callable[[], None] | None = None) -> None:
        """`prepared` is called before each turn."""
        self._prepared = prepared
        words = [sys.executable, "-m", "bench.claimant", TASK, *place]
        self._claimants = [
            subprocess.Popen(
                words, cwd=ROOT, env=clean_env(), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            for _ in range(PROCESSES)
        ]
        self.won = [0] * PROCESSES
        self.seconds: list[float] = []
        self.faults = 0
        for claimant in self._claimants:
            _line_of(claimant)

    def turn(self) -> float:
        """Let all claim for the same moment; how many a second they won."""
        if self._prepared is not None:
            self._prepared()
        began = time.perf_counter()
        for claimant in self._claimants:
            _tell(claimant, f"{SECONDS}\n")
        claimed = [msgspec.json.decode(_line_of(claimant), type=Claimed) for claimant in self._claimants]
        seconds = time.perf_counter() - began  # What was begun in time is ended, and counted.
        for number, one in enumerate(claimed):
            self.won[number] += len(one.seconds)
            self.seconds += one.seconds
            self.faults += one.faults
        return sum(len(one.seconds) for one in claimed) / seconds

    def fairness(self) -> float:
        """Jain's index of how many claims each process won: 1 if all the same, 1/n if one had everything."""
        return sum(self.won) ** 2 / (len(self.won) * sum(count * count for count in self.won))

    def close(self) -> None:
        for claimant in self._claimants:
            claimant.kill()
            claimant.communicate()


def run() -> bool:
    """Each way; True if every goal was met."""
    with folder() as here:
        stores = {history: _store_with(here, history) for history in HISTORIES}
        met = _measure("embedded, as `interlock exec` claims, on one SQLite file", here, stores, _embedded)
        met &= _measure("embedded, through `il.claim_grant`, on one SQLite file", here, stores, _called)
        return met & _measure("through the service, on SQLite", here, stores, _served)


def _measure(
    how: str, here: Path, stores: Mapping[int, str], way: Callable[[str], AbstractContextManager[Contest]]
) -> bool:
    with ExitStack() as stack:
        ours: dict[int, Contest] = {}
        theirs: dict[int, Contest] = {}
        bare: dict[int, Contest] = {}
        for history, store in stores.items():
            _supply(store)
            ours[history] = stack.enter_context(way(store))
            if history in LOCK_FILE:
                theirs[history] = stack.enter_context(_rivals(here / f"{history}.log", history))
                bare[history] = stack.enter_context(closing(Contest(f"{BARE}{store}")))
        turns: dict[str, Callable[[], float]] = {}
        for history in stores:
            turns[f"ours {history}"] = ours[history].turn
            if history in theirs:
                turns[f"theirs {history}"] = theirs[history].turn
                turns[f"bare {history}"] = bare[history].turn
        return _told(how, in_turns(turns, TURNS), ours, theirs, bare)


def _rivals(log: Path, history: int) -> AbstractContextManager[Contest]:
    """With as long a log in each turn, however much was claimed in the last."""
    return closing(Contest(str(log), prepared=lambda: lock_file.write(log, TASK, history)))


def _embedded(store: str) -> AbstractContextManager[Contest]:
    return closing(Contest(store))


def _called(store: str) -> AbstractContextManager[Contest]:
    return closing(Contest(f"{CLIENT}{store}"))


@contextmanager
def _served(store: str) -> Generator[Contest]:
    server = InterlockServer(store, env={"INTERLOCK_LOG_LEVEL": "error"})
    server.start()
    try:
        key = server.create_key("bot", kind="agent", roles="submit").key
        with closing(Contest(server.url, key)) as contest:
            yield contest
    finally:
        server.close()


def _tell(claimant: subprocess.Popen[str], line: str) -> None:
    assert claimant.stdin is not None
    claimant.stdin.write(line)
    claimant.stdin.flush()


def _line_of(claimant: subprocess.Popen[str]) -> str:
    assert claimant.stdout is not None
    line = claimant.stdout.readline()
    if not line:
        raise SystemExit("a claimant of the benchmark ended early; what it said is above")
    return line


# What is measured beside.


def _store_with(here: Path, history: int) -> str:
    """A store with that many spent grants, each with its use."""
    store = f"sqlite:///{here}/{history}.db"
    kernel = LocalKernel(store)
    kernel.run(IssueGrant(caller=kernel.caller, grant_id=new_id("gnt"), task=TASK))
    claim = ClaimGrant(caller=kernel.caller, task=TASK, args=msgspec.Raw(b"{}"), execution_id="first")
    use = kernel.run(claim)
    kernel.close()
    if not isinstance(use, GrantUse):
        raise SystemExit("the grant that was just issued is not there")
    _copy(store, use.grant_id, history - 1, use)
    return store


def _supply(store: str) -> None:
    """More open one-shot grants than a contest can use up."""
    kernel = LocalKernel(store)
    issued = kernel.run(IssueGrant(caller=kernel.caller, grant_id=new_id("gnt"), task=TASK))
    kernel.close()
    _copy(store, issued.id, SUPPLY)


def _copy(store: str, grant_id: str, count: int, use: GrantUse | None = None) -> None:
    """Copies of a grant, and of its use if it has one, written straight into the tables."""
    database = connect(store.removeprefix("sqlite:///"))
    body = database.execute("SELECT body FROM grants WHERE id = ?", (grant_id,)).get
    grant: Grant = GRANTS.decode(body)
    database.execute("BEGIN IMMEDIATE")
    for _ in range(count):
        copied = replace(grant, id=new_id("gnt"))
        database.execute(insert_one(GRANTS), GRANTS.row(copied))
        if use is not None:
            again = replace(use, id=use_id(TASK, use.claimed_by, copied.id), grant_id=copied.id)
            database.execute(insert_one(GRANT_USES), GRANT_USES.row(again))
    database.execute("COMMIT")
    database.close()


# What is told.


def _told(
    how: str,
    found: Mapping[str, Sequence[float]],
    ours: Mapping[int, Contest],
    theirs: Mapping[int, Contest],
    bare: Mapping[int, Contest],
) -> bool:
    title(f"Claims of grants by {PROCESSES} processes {how}, {TURNS} turns of {SECONDS} s")
    met = True
    for history, contest in ours.items():
        _show(f"beside {history:,} spent grants", found[f"ours {history}"], contest)
        met &= ratio(f"beside {history:,}: Jain fairness", contest.fairness(), 0.95, unit=" ")
        if history in theirs:
            raw = f"raw: one claim's statements a commit beside {history:,}"
            _show(raw, found[f"bare {history}"], bare[history])
            _show(
                f"the least with a lock file beside {history:,}", found[f"theirs {history}"], theirs[history]
            )
            mine = found[f"ours {history}"]
            figure(f"beside {history:,}: over that lock file", over(mine, found[f"theirs {history}"]), "x")
            best, goal = LOCK_FILE[history]
            times = statistics.median(mine) / best
            met &= ratio(f"beside {history:,}: over the tool's {best} a second", times, goal)
    shortest = found[f"ours {HISTORIES[0]}"]
    beside = [over(found[f"ours {history}"], shortest) for history in ours]
    figure("shortest history over longest", 1 / beside[-1], "x")
    return met & ratio("quickest history over slowest", max(beside) / min(beside), 1.3, at_most=True)


def _show(what: str, rates: Sequence[float], contest: Contest) -> None:
    figure(what, statistics.median(rates), "claims a second")
    figure(f"{what}: p99", quantile(contest.seconds, 0.99) * 1000 if contest.seconds else 0.0, "ms")
    timed_out = contest.faults / max(1, contest.faults + len(contest.seconds))
    figure(f"{what}: timed out", 100 * timed_out, "%")

"""Claims of one-shot grants by eight processes, beside histories of spent grants: rate, fairness, p99.

Beside them, in turns, a design with a lock file that scans its log (`bench/lock_file.py`). On two quiet cores one
like it was measured with 110 to 230 claims a second at 100 records of history, 9 to 19 at 5,000, and 3 to 8 % of
the claims timing out. Every claim of either is synced, so on a busy disk the two come closer at a short history.
What eight processes on one file can do at most with a commit each is told too: the statements of a claim, with
nothing decided.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from bench import lock_file
from bench.claimant import BARE, CLIENT, Claimed
from bench.report import figure, quantile, ratio, title
from bench.scene import folder
from interlock.grants.claiming import ClaimGrant
from interlock.grants.consuming import use_id
from interlock.grants.model import GRANT_USES, GRANTS, Grant, GrantUse
from interlock.grants.rules import IssueGrant
from interlock.kernel.ids import new_id
from interlock.runtime.direct import DirectStore
from interlock.store.sqlite_driver import connect
from interlock.store.statements import insert_one
from tests.harness.server import InterlockServer, clean_env

PROCESSES = 8
SECONDS = 6.0  # long enough that chance alone does not look like unfairness
ROUNDS = 3
HISTORIES = (100, 5_000, 100_000)
SUPPLY = 30_000
LOCK_FILE = {100: 10, 5_000: 100}  # by history, how many times its rate is the goal
ROOT = Path(__file__).parents[1]
TASK = "bench"


def run() -> bool:
    """Each way; True if every goal was met."""
    with folder() as here:
        stores = {history: _store_with(here, history) for history in HISTORIES}
        met = _measure("embedded, as `interlock exec` claims, on one SQLite file", here, stores, _embedded)
        met &= _measure("embedded, through `il.claim`, on one SQLite file", here, stores, _called)
        return met & _measure("through the service, on SQLite", here, stores, _served)


Contests = Mapping[int, list[list[Claimed]]]


def _measure(
    how: str, here: Path, stores: Mapping[int, str], contest: Callable[[str], list[Claimed]]
) -> bool:
    ours: Contests = {history: [] for history in stores}
    theirs: Contests = {history: [] for history in LOCK_FILE}
    bare: Contests = {history: [] for history in LOCK_FILE}
    for _ in range(ROUNDS):
        for history, store in stores.items():
            _supply(store)
            ours[history].append(contest(store))
            if history in LOCK_FILE:
                theirs[history].append(_rivals(here / "rival.log", history))
                _supply(store)
                bare[history].append(_bare(store))
    return _told(how, ours, theirs, bare)


def _rivals(log: Path, history: int) -> list[Claimed]:
    lock_file.write(log, TASK, history)
    return _claimed(str(log))


def _bare(store: str) -> list[Claimed]:
    return _claimed(f"{BARE}{store}")


def _embedded(store: str) -> list[Claimed]:
    return _claimed(store)


def _called(store: str) -> list[Claimed]:
    return _claimed(f"{CLIENT}{store}")


def _served(store: str) -> list[Claimed]:
    server = InterlockServer(store, env={"INTERLOCK_LOG_LEVEL": "error"})
    server.start()
    try:
        return _claimed(server.url, server.create_key("bot", kind="agent", roles="submit").key)
    finally:
        server.close()


def _claimed(*place: str) -> list[Claimed]:
    """Let eight processes claim for the same seconds."""
    with _claimants(place) as claimants:
        for claimant in claimants:
            _tell(claimant, f"{SECONDS}\n")
        return [msgspec.json.decode(_line_of(claimant), type=Claimed) for claimant in claimants]


@contextlib.contextmanager
def _claimants(place: Sequence[str]) -> Generator[list[subprocess.Popen[str]]]:
    words = [sys.executable, "-m", "bench.claimant", TASK, *place]
    started = [
        subprocess.Popen(
            words, cwd=ROOT, env=clean_env(), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for _ in range(PROCESSES)
    ]
    try:
        for claimant in started:
            _line_of(claimant)
        yield started
    finally:
        for claimant in started:
            claimant.kill()
            claimant.communicate()


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
    """A store with so many spent grants, each with its use."""
    store = f"sqlite:///{here}/{history}.db"
    direct = DirectStore(store)
    direct.run(IssueGrant(caller=direct.caller, grant_id=new_id("gnt"), task=TASK))
    claim = ClaimGrant(caller=direct.caller, task=TASK, args=msgspec.Raw(b"{}"), execution_id="first")
    use = direct.run(claim)
    direct.close()
    if not isinstance(use, GrantUse):
        raise SystemExit("the grant that was just issued is not there")
    _copy(store, use.grant_id, history - 1, use)
    return store


def _supply(store: str) -> None:
    """So many open one-shot grants, as many as no contest can use up."""
    direct = DirectStore(store)
    issued = direct.run(IssueGrant(caller=direct.caller, grant_id=new_id("gnt"), task=TASK))
    direct.close()
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


def _told(how: str, ours: Contests, theirs: Contests, bare: Contests) -> bool:
    title(f"Claims of grants by {PROCESSES} processes {how}")
    rates = {history: statistics.median(map(_rate, contests)) for history, contests in ours.items()}
    met = True
    for history, contests in ours.items():
        _show(f"beside {history:,} spent grants", contests)
        met &= ratio(
            f"beside {history:,}: Jain fairness", statistics.median(map(_fairness, contests)), 0.95, unit=" "
        )
        if history in theirs:
            _show(f"raw: one claim's statements a commit beside {history:,}", bare[history])
            _show(f"a lock file beside {history:,}", theirs[history])
            rival = statistics.median(map(_rate, theirs[history]))
            met &= ratio(
                f"beside {history:,}: over a lock file", rates[history] / max(rival, 0.1), LOCK_FILE[history]
            )
    figure("shortest history over longest", rates[HISTORIES[0]] / rates[HISTORIES[-1]], "x")
    flat = max(rates.values()) / min(rates.values())
    return met & ratio("quickest history over slowest", flat, 1.3, at_most=True)


def _show(what: str, contests: Sequence[Sequence[Claimed]]) -> None:
    times = [took for contest in contests for one in contest for took in one.seconds]
    faults = sum(one.faults for contest in contests for one in contest)
    figure(what, statistics.median(map(_rate, contests)), "claims a second")
    figure(f"{what}: p99", quantile(times, 0.99) * 1000 if times else 0.0, "ms")
    figure(f"{what}: timed out", 100 * faults / max(1, faults + len(times)), "%")


def _rate(contest: Sequence[Claimed]) -> float:
    return sum(len(one.seconds) for one in contest) / SECONDS


def _fairness(contest: Sequence[Claimed]) -> float:
    """Jain's index of how many claims each process won: 1 if all the same, 1/n if one had everything."""
    won = [len(one.seconds) for one in contest]
    return sum(won) ** 2 / (len(won) * sum(count * count for count in won))

"""`wait=0` means now, and whatever waits longer than a second says what for and until when."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock import Busy, Full, Interlock, StillPending
from interlock.sdk.retry import Retry

ASKING = "version: v1\ndefault: require_human\n"


@pytest.fixture
def retries() -> list[Retry]:
    return []


@pytest.fixture
def words() -> list[str]:
    return []


@pytest.fixture
def il(tmp_path: Path, retries: list[Retry], words: list[str]) -> Iterator[Interlock]:
    store = f"sqlite:///{tmp_path}/interlock.db"
    with Interlock(store=store, on_retry=retries.append, on_wait=words.append) as client:
        client.apply_policy(ASKING)
        yield client


def test_a_held_lease_is_busy_now(il: Interlock, retries: list[Retry]) -> None:
    with il.lease("file:a"), pytest.raises(Busy), il.lease("file:a", wait=0):
        pass
    assert retries == []


def test_a_full_limit_is_full_now(il: Interlock, retries: list[Retry]) -> None:
    il.set_limit("nightly", 1)
    with il.admit("nightly"), pytest.raises(Full), il.admit("nightly", wait=0):
        pass
    assert retries == []


def test_a_call_that_nobody_decided_is_still_pending_now(
    il: Interlock, retries: list[Retry], words: list[str]
) -> None:
    @il.gate("pay", key=lambda: "one", wait=0)
    def pay() -> None: ...

    with pytest.raises(StillPending):
        pay()
    assert retries == []
    assert words == []


def test_a_wait_for_a_lease_or_a_slot_is_told_once(il: Interlock, words: list[str]) -> None:
    il.set_limit("nightly", 1)
    with il.lease("file:a"), il.admit("nightly"):
        with pytest.raises(Busy), il.lease("file:a", wait=1.5):
            pass
        with pytest.raises(Full), il.admit("nightly", wait=1.5):
            pass
    lease, slot = words
    assert lease.startswith("waiting for the lease on file:a, until 20")
    assert slot.startswith("waiting for a slot of nightly, until 20")


def test_a_gate_without_wait_prints_once_whom_it_waits_for(
    il: Interlock, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    @il.gate("pay", on_pending=lambda job: asked.append(job.id))
    def pay() -> str:
        return "paid"

    def reject_later() -> None:
        while not words:
            pass
        il.cancel_job(asked[0])

    deciding = threading.Thread(target=reject_later)
    deciding.start()
    with pytest.raises(Exception, match="CANCELLED"):
        pay()
    deciding.join()
    (line,) = words
    assert line.startswith(f"waiting for 1 approval of job {asked[0]} (pay), until 20")
    assert capsys.readouterr().err == f"interlock: {line}\n"

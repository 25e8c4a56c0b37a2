"""What one process decides for another on the same file: what is taken along, what is left, what is in doubt."""

from __future__ import annotations

import time
from typing import Any, cast

import apsw
import pytest

from interlock.effects.refusals import EffectInProgress
from interlock.grants.claiming import ClaimGrant, NotClaimed
from interlock.grants.model import GrantUse
from interlock.kernel.batch import Batch
from interlock.kernel.ids import new_id
from interlock.kernel.pending import Pending
from interlock.kernel.refusal import LockBusy, OutcomeUnknown
from interlock.kernel.world import World
from interlock.runtime.requests import REQUESTS
from interlock.store.asking import Asking
from interlock.store.beside import Beside
from interlock.store.sqlite import write_lock as writer_lock
from interlock.store.sqlite.guests import GuestsFailed
from interlock.store.sqlite_blocking import BlockingSqlite
from interlock.store.turns import Turns
from tests.conformance.asking import PATIENCE, SPENT, WON, Scene, won


def test_one_commit_carries_what_others_ask_for(scene: Scene) -> None:
    scene.issue(4)
    askers, holder = scene.askers(3), scene.holder
    claims = scene.claims_of(askers)
    before = holder.count("batches")
    (own,) = holder.decide(askers[0].claim_of("own"))
    holder.commit()
    uses = won(claims)
    assert len({own.grant_id, *(use.grant_id for use in uses)}) == 4
    assert holder.count("batches") == before + 1
    assert (holder.count(WON), holder.count(SPENT)) == (4, 4)


def test_whoever_gave_up_has_nobody_decide_for_it_later(scene: Scene) -> None:
    scene.issue(1)
    (asker,), holder = scene.askers(1, seconds=0.1), scene.holder
    (claim,) = scene.claims_of([asker])
    requests = holder.lock.take_along()
    assert len(requests) == 1
    with pytest.raises(LockBusy):
        claim.result(PATIENCE)
    assert not holder.lock.promise()


def test_whoever_gave_up_and_ended_has_nobody_decide_for_it_in_the_next_one_s_place(scene: Scene) -> None:
    scene.issue(1)
    (gone,), (following,) = scene.askers(1, seconds=0.1), scene.askers(1)
    holder = scene.holder
    holder.begin()
    claim = gone.claim()
    holder.sees(1)
    holder.lock.take_along()
    with pytest.raises(LockBusy):
        claim.result(PATIENCE)
    gone.store.close()
    waiting = following.claim()
    holder.sees(1)
    assert not holder.lock.promise()
    holder.end()
    assert len(won([waiting])) == 1


def test_a_batch_goes_without_a_guest_that_was_withdrawn_while_it_was_decided(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.issue(2)
    (asker,), holder = scene.askers(1, seconds=0.2), scene.holder
    (claim,) = scene.claims_of([asker])
    decide = ClaimGrant.decide

    def slow(self: ClaimGrant, world: World) -> GrantUse | NotClaimed:
        if self.execution_id == "own" and not claim.done():
            with pytest.raises(LockBusy):
                claim.result(PATIENCE)
        return decide(self, world)

    monkeypatch.setattr(ClaimGrant, "decide", slow)
    own = asker.claim_of("own")
    with pytest.raises(GuestsFailed):
        holder.decide(own)
    assert holder.batch.reads() == own.reads()
    holder.end()
    assert holder.count(SPENT) == 0


def test_nobody_is_told_that_what_a_batch_went_without_is_decided(scene: Scene) -> None:
    shared = Beside(scene.path)
    asks = Asking(shared, Turns(shared))
    assert asks.ask(b"something")
    holder = scene.holder
    holder.begin()
    assert holder.lock.take_along() == [b"something"]
    holder.file._database.execute("ROLLBACK")
    holder.begin()
    holder.commit()
    # Somebody else may be about to commit it.
    assert not asks.is_told()
    shared.close()


def test_the_store_begins_again_alone_when_its_guests_fail_in_the_time_that_is_left(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.issue(2)
    (asker,), holder = scene.askers(1), scene.holder
    monkeypatch.setattr(Asking, "promise", lambda *_: False)
    waits: list[float] = []
    begin = BlockingSqlite._begin

    def noted(self: BlockingSqlite, seconds: float, *company: Any) -> bool:
        waits.append(seconds)
        return begin(self, seconds, *company)

    monkeypatch.setattr(BlockingSqlite, "_begin", noted)
    request = REQUESTS.encode([asker.claim_of("guest")], lambda _: None)
    assert request is not None
    assert holder.others.ask(request)
    members = [Pending(asker.claim_of("own"), cast("Any", None), now=0.0, budget=1.0, weight=0)]
    batch = Batch(new_id("batch"), members, new_id, REQUESTS)
    holder.file.transact(batch.transaction(PATIENCE))
    assert isinstance(batch.outcomes[members[0]], GrantUse)
    assert (holder.count(WON), holder.count(SPENT)) == (1, 1)
    assert not holder.others.is_told()
    first, second = waits
    assert second < first == PATIENCE
    holder.others.drop()


def test_whoever_is_promised_a_commit_that_does_not_come_says_that_it_does_not_know(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_lock, "_PROMISED_SECONDS", 0.2)
    scene.issue(1)
    (asker,), holder = scene.askers(1, seconds=0.1), scene.holder
    holder.begin()
    claim = asker.claim("mine")
    holder.sees(1)
    holder.decide()
    with pytest.raises(OutcomeUnknown, match="look at the record"):
        claim.result(PATIENCE)
    holder.commit()
    # It was decided after all, and a repeat says so.
    assert won([asker.claim("mine")])[0].execution_id == "mine"
    assert (holder.count(WON), holder.count(SPENT)) == (1, 1)


def test_whoever_is_promised_a_commit_waits_for_it_beyond_its_budget(scene: Scene) -> None:
    scene.issue(1)
    (asker,), holder = scene.askers(1, seconds=0.1), scene.holder
    (claim,) = scene.claims_of([asker])
    holder.decide()
    time.sleep(0.3)
    holder.commit()
    assert len(won([claim])) == 1


def test_whoever_is_promised_a_commit_waits_for_it_while_the_file_fails(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.issue(1)
    (asker,), holder = scene.askers(1, seconds=0.1), scene.holder
    (claim,) = scene.claims_of([asker])
    holder.decide()

    def fails(_: object) -> None:
        raise apsw.IOError("disk I/O error")

    monkeypatch.setattr(writer_lock, "try_to_begin", fails)
    time.sleep(0.3)
    holder.commit()
    assert len(won([claim])) == 1


@pytest.mark.parametrize("is_promised", [True, False])
def test_whoever_closes_its_file_while_it_asks_has_nobody_decide_for_it_unawares(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, is_promised: bool
) -> None:
    """As a finalizer does that calls in the middle of a call."""
    scene.issue(1)
    (asker,), holder = scene.askers(1), scene.holder
    (claim,) = scene.claims_of([asker])
    requests = holder.lock.take_along()
    assert len(requests) == 1
    assert not is_promised or holder.lock.promise()
    wait = Asking.wait

    def left(self: Asking, heard: int, seconds: float) -> None:
        wait(self, heard, seconds)
        assert asker.store._file is not None
        asker.store._file.close()

    monkeypatch.setattr(Asking, "wait", left)
    error = claim.exception(PATIENCE)
    assert isinstance(error, OutcomeUnknown) == is_promised
    assert is_promised or not holder.lock.promise()


@pytest.mark.parametrize("has_committed", [True, False])
def test_one_that_ends_without_a_word_leaves_no_doubt(scene: Scene, has_committed: bool) -> None:
    scene.issue(2)
    askers, holder = scene.askers(2), scene.holder
    claims = scene.claims_of(askers)
    holder.decide()
    if has_committed:
        holder.commit_and_end()
    else:
        holder.end()
    assert len({use.grant_id for use in won(claims)}) == 2
    assert (holder.count(WON), holder.count(SPENT)) == (2, 2)


def test_a_no_is_left_to_whoever_asked_and_recorded_once(scene: Scene) -> None:
    scene.issue(1)
    askers, holder = scene.askers(2), scene.holder
    claims = scene.claims_of(askers)
    holder.decide()
    holder.commit()
    found = [claim.result(PATIENCE) for claim in claims]
    assert sorted(type(each).__name__ for each in found) == ["GrantUse", "NotClaimed"]
    assert holder.count("audit_entries WHERE action LIKE 'grant_claim%'") == 2


def test_an_effect_begins_in_another_process_s_commit_with_its_grant(scene: Scene) -> None:
    scene.issue(2)
    askers, holder = scene.askers(2), scene.holder
    holder.begin()
    begun = [asker.begin(f"act-{number}") for number, asker in enumerate(askers)]
    holder.sees(2)
    before = holder.count("batches")
    holder.decide()
    holder.commit()
    effects = [each.result(PATIENCE) for each in begun]
    assert [(each.effect.fence, each.replayed) for each in effects] == [(1, False), (1, False)]
    assert holder.count("batches") == before + 1
    assert holder.count(SPENT) == 2


@pytest.mark.parametrize("tells", [True, False])
def test_of_two_that_begin_the_same_action_one_begins_it_and_knows(scene: Scene, tells: bool) -> None:
    scene.issue(2)
    askers, holder = scene.askers(2), scene.holder
    holder.begin()
    begun = [asker.begin("act-1") for asker in askers]
    holder.sees(2)
    holder.decide()
    if tells:
        holder.commit()
    else:
        holder.commit_and_end()
    ended = [each.exception(PATIENCE) for each in begun]
    assert [type(error) for error in ended if error] == [EffectInProgress]
    assert holder.count(SPENT) == 1


def test_an_attempt_that_others_began_is_not_taken_for_one_s_own(scene: Scene) -> None:
    scene.issue(2)
    mine, yours = scene.askers(2)
    assert mine.begin("act-1").result(PATIENCE).effect.fence == 1
    with pytest.raises(EffectInProgress):
        yours.begin("act-1").result(PATIENCE)

"""What processes leave each other beside the file can be wrong, old, forged or too much, and nobody is harmed."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from interlock.grants.claiming import ClaimGrant, NotClaimed
from interlock.grants.model import GrantUse
from interlock.grants.signing import SetGrantTerms
from interlock.identity.keys import make_key
from interlock.identity.model import Caller, PrincipalKind, Role
from interlock.identity.refusals import Unauthenticated
from interlock.identity.rules import IssueKey, RevokeKey
from interlock.kernel.world import World
from interlock.runtime.requests import REQUESTS
from interlock.store import asking
from interlock.store.asking import Asking
from interlock.store.beside import BYTES, Beside
from interlock.store.turns import Turns
from tests.conformance.asking import PATIENCE, SPENT, WON, Scene, won

CLAIM = ClaimGrant(
    caller=Caller(tenant="default", principal="bot"),
    task="t",
    args=msgspec.Raw(b"{}"),
    execution_id="x",
)


def test_a_word_that_something_was_decided_is_not_believed(scene: Scene) -> None:
    scene.issue(1)
    (asker,), holder = scene.askers(1), scene.holder
    (claim,) = scene.claims_of([asker])
    holder.others.tell(holder.others.requests())
    time.sleep(0.05)
    assert not claim.done()
    holder.end()
    assert len(won([claim])) == 1
    assert (holder.count(WON), holder.count(SPENT)) == (1, 1)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda body: b"\xff" + body[1:], id="torn"),
        pytest.param(lambda body: body.replace(b"ClaimGrant", b"RemoveAll!"), id="unknown"),
        pytest.param(lambda body: body.replace(b'"looks_left"', b'"looks_rite"'), id="newer"),
        pytest.param(lambda body: b"[]".ljust(len(body)), id="empty"),
        pytest.param(lambda body: body.replace(b'"tenant":"default"', b'"tenant":[1,2,3,4]'), id="mistyped"),
    ],
)
@pytest.mark.parametrize("is_checked", [True, False])
def test_a_spoilt_request_harms_nobody(
    scene: Scene, spoil: Callable[[bytes], bytes], is_checked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_checked:  # as if the checksum had been made to fit
        monkeypatch.setattr(asking, "crc32", lambda *_: 7)
    scene.issue(2)
    (asker,), holder = scene.askers(1), scene.holder
    (claim,) = scene.claims_of([asker])
    (request,) = holder.others.requests()
    with (scene.path.parent / "a.db-turn").open("r+b") as file:
        at = file.read().index(request.body)
        file.seek(at)
        file.write(spoil(request.body))
    (own,) = holder.decide(asker.claim_of("own"))
    holder.commit()
    (use,) = won([claim])
    assert own.grant_id != use.grant_id
    assert (holder.count(WON), holder.count(SPENT)) == (2, 2)


def test_a_request_that_breaks_fails_nobody_else(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.issue(3)
    askers, holder = scene.askers(2), scene.holder
    decide = ClaimGrant.decide
    broken: list[str] = []

    def breaks_once(self: ClaimGrant, world: World) -> GrantUse | NotClaimed:
        if self.execution_id == "bad" and not broken:
            broken.append("bad")
            raise ArithmeticError("a bug")
        return decide(self, world)

    monkeypatch.setattr(ClaimGrant, "decide", breaks_once)
    holder.begin()
    claims = [askers[0].claim("bad"), askers[1].claim("good")]
    holder.sees(2)
    (own,) = holder.decide(askers[0].claim_of("own"))
    holder.commit()
    assert len({own.grant_id, *(use.grant_id for use in won(claims))}) == 3
    assert broken == ["bad"]


@pytest.mark.parametrize("where", ["in the claim", "in the store"])
def test_what_needs_a_signature_is_decided_by_whoever_wants_it(scene: Scene, where: str) -> None:
    scene.issue(1)
    if where == "in the store":
        scene.first.run(SetGrantTerms(caller=scene.first.caller, signed_tasks=("t",)))
    (asker,), holder = scene.askers(1), scene.holder
    holder.begin()
    claim = asker.claim(signed_only=where == "in the claim")
    time.sleep(0.1)
    assert holder.others.requests() == []
    holder.end()
    assert isinstance(claim.result(PATIENCE), NotClaimed)


def test_a_request_that_says_more_than_this_program_understands_is_left_alone() -> None:
    body = REQUESTS.encode([CLAIM], lambda _: None)
    assert body is not None
    assert REQUESTS.decode(body) == [CLAIM]
    assert REQUESTS.decode(body.replace(b'"task":', b'"only_on":"sunday","task":')) == []
    assert REQUESTS.decode(body.replace(b'"signed_only":false,', b"")) == []


def test_a_signature_that_is_required_meanwhile_is_required(scene: Scene) -> None:
    scene.issue(1)
    (asker,), holder = scene.askers(1), scene.holder
    (claim,) = scene.claims_of([asker])
    holder.file._database.execute(
        "INSERT INTO grant_terms (tenant, id, version, body) VALUES ('default', 'terms', 1, ?)",
        ('{"tenant":"default","id":"terms","version":1,"signed_tasks":["t"]}',),
    )
    holder.decide()
    holder.commit()
    assert isinstance(claim.result(PATIENCE), NotClaimed)
    assert holder.count(SPENT) == 0


def test_a_repeat_under_a_key_that_was_revoked_finds_nothing(scene: Scene) -> None:
    scene.issue(2)
    key = make_key()
    agent = Caller(tenant="default", principal="bot", key_id=key.id, key_digest=key.digest)
    scene.first.run(
        IssueKey(
            tenant="default",
            name="bot",
            kind=PrincipalKind.AGENT,
            roles=(Role.WORK,),
            key_id=key.id,
            digest=key.digest,
        )
    )
    (asker,), holder = scene.askers(1), scene.holder
    claim = msgspec.structs.replace(asker.claim_of("mine"), caller=agent)
    assert isinstance(asker.run(claim).result(PATIENCE), GrantUse)
    scene.first.run(RevokeKey(tenant="default", key_id=key.id, principal="bot"))
    holder.begin()
    again = asker.run(claim)
    time.sleep(0.1)
    holder.decide()
    holder.commit()
    with pytest.raises(Unauthenticated):
        again.result(PATIENCE)


def test_what_does_not_fit_into_its_place_waits_for_the_lock(scene: Scene) -> None:
    scene.issue(1)
    (asker,), holder = scene.askers(1), scene.holder
    holder.begin()
    claim = asker.claim(args=b'{"text":"' + b"x" * 4096 + b'"}')
    time.sleep(0.1)
    assert holder.others.requests() == []
    holder.end()
    assert len(won([claim])) == 1


def test_whoever_finds_no_place_waits_for_the_lock(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_PLACES", 1)
    scene.issue(2)
    askers, holder = scene.askers(2), scene.holder
    holder.begin()
    claims = [asker.claim() for asker in askers]
    holder.sees(1)
    time.sleep(0.1)
    assert len(holder.others.requests()) == 1
    holder.decide()
    holder.commit()
    assert len({use.grant_id for use in won(claims)}) == 2


def test_a_place_is_free_again_when_its_process_is_gone(tmp_path: Path) -> None:
    for _ in range(3 * asking._PLACES):
        shared = Beside(tmp_path / "a.db")
        asks = Asking(shared, Turns(shared))
        assert asks.ask(b"something")
        asks.close()
        shared.close()
    assert (tmp_path / "a.db-turn").stat().st_size == BYTES


def test_nobody_decides_for_one_that_is_gone(tmp_path: Path) -> None:
    mine, yours = Beside(tmp_path / "a.db"), Beside(tmp_path / "a.db")
    asks, holder = Asking(mine, Turns(mine)), Asking(yours, Turns(yours))
    assert asks.ask(b"something")
    assert yours.open(make=False)
    assert [request.body for request in holder.requests()] == [b"something"]
    taken = holder.requests()
    mine.close()  # as one that is killed: it has not withdrawn anything
    assert holder.requests() == []
    assert not holder.promise(taken)
    yours.close()


def test_a_request_taken_from_one_that_is_gone_is_not_promised_to_the_next_in_its_place(
    tmp_path: Path,
) -> None:
    mine, yours, theirs = (Beside(tmp_path / "a.db") for _ in range(3))
    gone = Asking(mine, Turns(mine))
    assert gone.ask(b"before")
    holder = Asking(yours, Turns(yours))
    assert yours.open(make=False)
    taken = holder.requests()
    gone.close()
    mine.close()
    following = Asking(theirs, Turns(theirs))
    assert following.ask(b"after")
    assert not holder.promise(taken)
    assert following.withdraw()


def test_who_withdraws_and_who_promises_exclude_each_other(tmp_path: Path) -> None:
    mine, yours = Beside(tmp_path / "a.db"), Beside(tmp_path / "a.db")
    asks, holder = Asking(mine, Turns(mine)), Asking(yours, Turns(yours))
    assert asks.ask(b"something")
    assert yours.open(make=False)
    (request,) = holder.requests()
    byte = asking._agreeing(request.place)
    assert mine.try_lock(byte)
    assert not holder.promise([request])  # somebody is about to withdraw
    assert holder.requests() == []  # and may have been stopped there, which must not fail every batch
    mine.unlock(byte)
    assert yours.try_lock(byte)
    assert not asks.withdraw()  # somebody is about to promise
    yours.unlock(byte)
    assert holder.promise(holder.requests())
    assert not asks.withdraw()
    assert holder.requests() == []  # nobody takes it along a second time


def test_what_is_promised_to_one_is_taken_back_if_another_has_withdrawn(tmp_path: Path) -> None:
    files = [Beside(tmp_path / "a.db") for _ in range(3)]
    first, second, holder = (Asking(file, Turns(file)) for file in files)
    assert first.ask(b"one")
    assert second.ask(b"two")
    assert files[2].open(make=False)
    taken = holder.requests()
    assert len(taken) == 2
    assert second.withdraw()
    assert not holder.promise(taken)
    assert [request.body for request in holder.requests()] == [b"one"]
    assert first.withdraw()


def test_whoever_is_stopped_while_it_agrees_keeps_nobody_else_in_doubt(tmp_path: Path) -> None:
    files = [Beside(tmp_path / "a.db") for _ in range(3)]
    stopped, other, holder = (Asking(file, Turns(file)) for file in files)
    assert stopped.ask(b"one")
    assert other.ask(b"two")
    assert files[0].try_lock(asking._agreeing(0))  # as in the middle of its `withdraw`
    assert files[2].open(make=False)
    (request,) = holder.requests()
    assert request.body == b"two"
    assert holder.promise([request])
    holder.tell([request])
    assert other.is_told()


def test_what_was_asked_for_does_not_stay_beside_the_file(scene: Scene) -> None:
    scene.issue(2)
    askers, holder = scene.askers(2), scene.holder
    secret = b'{"token":"s3cret"}'
    holder.begin()
    claims = [asker.claim(args=secret) for asker in askers]
    holder.sees(2)
    turn = scene.path.parent / "a.db-turn"
    assert b"s3cret" in turn.read_bytes()
    holder.decide()
    holder.commit()
    won(claims)
    assert b"s3cret" not in turn.read_bytes()


def test_nor_what_one_asked_for_that_has_ended(tmp_path: Path) -> None:
    gone, here = Beside(tmp_path / "a.db"), Beside(tmp_path / "a.db")
    assert Asking(gone, Turns(gone)).ask(b"s3cret")
    gone.close()
    assert here.open(make=False)
    assert Asking(here, Turns(here)).requests() == []
    assert b"s3cret" not in (tmp_path / "a.db-turn").read_bytes()
    here.close()

"""Grants through the SDK: the same from both clients, with typed refusals."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock import AsyncInterlock, Conflict, Denied, Interlock, InvalidRequest
from interlock.wire.grants import SpendLimit
from tests.harness.server import create_key


@pytest.fixture
def il(tmp_path: Path) -> Iterator[Interlock]:
    """A client on a store of its own."""
    with Interlock(store=f"sqlite:///{tmp_path}/interlock.db") as client:
        yield client


def test_a_block_is_entered_once_for_each_use(il: Interlock) -> None:
    grant = il.issue_grant("deploy", pins={"env": "test"})
    with il.granted("deploy", args={"env": "test"}) as use:
        assert (use.grant_id, use.use, use.fence) == (grant.id, 1, 1)
    with pytest.raises(Denied, match="no open grant for deploy"), il.granted("deploy", args={"env": "test"}):
        raise AssertionError("it was entered")


def test_a_named_grant_that_does_not_fit_is_a_conflict(il: Interlock) -> None:
    grant = il.issue_grant("deploy", pins={"env": "test"})
    with pytest.raises(Conflict, match="pin env"), il.granted("deploy", args={"env": "x"}, grant_id=grant.id):
        raise AssertionError("it was entered")


def test_a_use_stays_used_whatever_becomes_of_the_block(il: Interlock) -> None:
    grant = il.issue_grant("deploy")
    with pytest.raises(RuntimeError), il.granted("deploy"):
        raise RuntimeError("it broke")
    assert il.get_grant(grant.id).state == "spent"


def test_a_claim_says_whether_and_why_not(il: Interlock) -> None:
    assert not il.claim_grant("deploy").claimed
    il.issue_grant("deploy", uses=2)
    first = il.claim_grant("deploy", execution_id="run-7")
    assert il.claim_grant("deploy", execution_id="run-7") == first
    assert [grant.used for grant in il.grants(task="deploy").items] == [1]


def test_one_group_or_limit_by_itself_is_a_list_of_one(il: Interlock, tmp_path: Path) -> None:
    limited = il.issue_grant("refund", limits={"path": "cents", "total_max": 5})
    assert limited.limits == (SpendLimit(path="cents", total_max=5),)

    store = f"sqlite:///{tmp_path}/interlock.db"
    ada, bot = create_key(store, "ada").key, create_key(store, "bot", kind="agent", roles="submit").key
    with Interlock(store=store, key=ada) as person, Interlock(store=store, key=bot) as agent:
        person.issue_grant("deploy")
        assert "ada is not in ops" in (agent.claim_grant("deploy", groups="ops").reason or "")


def test_an_execution_without_a_name_is_refused_and_not_given_one(il: Interlock) -> None:
    grant = il.issue_grant("deploy")
    with pytest.raises(InvalidRequest):
        il.claim_grant("deploy", execution_id="")
    assert il.get_grant(grant.id).used == 0


def test_a_spent_grant_cannot_be_revoked(il: Interlock) -> None:
    grant = il.issue_grant("deploy")
    il.claim_grant("deploy")
    with pytest.raises(Conflict) as refused:
        il.revoke_grant(grant.id)
    assert refused.value.state == "spent"


def test_the_async_client_does_the_same(il: Interlock) -> None:
    async def play() -> int | None:
        async with AsyncInterlock(store=il.store) as ail:
            await ail.issue_grant("deploy")
            async with ail.granted("deploy") as use:
                used = use.use
            with pytest.raises(Denied):
                async with ail.granted("deploy"):
                    raise AssertionError("it was entered")
            return used

    assert asyncio.run(play()) == 1


def test_a_budget_is_a_limit_over_all_uses(il: Interlock) -> None:
    granted = il.issue_grant("refund", uses=9, budget={"path": "cents", "total_max": 100})
    assert granted.limits == (SpendLimit(path="cents", total_max=100),)
    wins = [il.claim_grant("refund", args={"cents": 60}).claimed for _ in range(2)]
    assert wins == [True, False]


def test_a_block_that_is_entered_again_needs_a_permission_again(il: Interlock) -> None:
    il.issue_grant("deploy")
    block = il.granted("deploy")
    with block as use:
        assert use.claimed
    with pytest.raises(Denied), block:
        raise AssertionError("entered without a permission")


def test_an_async_block_that_is_entered_again_needs_a_permission_again(il: Interlock) -> None:
    il.issue_grant("deploy")

    async def enter_twice() -> None:
        async with AsyncInterlock(store=il.store) as client:
            block = client.granted("deploy")
            async with block as use:
                assert use.claimed
            with pytest.raises(Denied):
                async with block:
                    raise AssertionError("entered without a permission")

    asyncio.run(enter_twice())

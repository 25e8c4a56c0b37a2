"""`once`, the decorator and the block: run once, replayed after, and unknown where nobody can tell."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from interlock import (
    Ambiguous,
    Busy,
    Committed,
    Conflict,
    Denied,
    Forbidden,
    Interlock,
    InvalidRequest,
    NotCommitted,
    NotDone,
    Unknown,
)
from interlock.sdk.retry import NO_RETRIES
from tests.sdk.approval_team import ApprovalTeam


class Bank:
    """A function with a memory."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.raises: BaseException | None = None

    def refund(self, txn: str, cents: int = 5, *, downstream_key: str = "") -> dict[str, Any]:
        self.calls.append((txn, cents, downstream_key))
        if self.raises:
            raise self.raises
        return {"refunded": cents}


@pytest.fixture
def bank() -> Bank:
    return Bank()


def test_a_repeat_returns_the_recorded_result_and_runs_nothing(team: ApprovalTeam, bank: Bank) -> None:
    results = [team.il.once("refund:1", bank.refund, "t1", 7) for _ in range(3)]
    assert results == [{"refunded": 7}] * 3
    assert len(bank.calls) == 1


def test_the_function_gets_the_key_for_the_remote_side(team: ApprovalTeam, bank: Bank) -> None:
    team.il.once("refund:1", bank.refund, "t1")
    assert bank.calls == [("t1", 5, team.il.get_effect("refund:1").downstream_key)]


def test_other_arguments_under_the_same_id_are_a_conflict(team: ApprovalTeam, bank: Bank) -> None:
    team.il.once("refund:1", bank.refund, "t1", 7)
    with pytest.raises(Conflict) as refused:
        team.il.once("refund:1", bank.refund, "t1", 8)
    assert refused.value.code == "action_id_reused"
    assert team.il.once("refund:1", bank.refund, txn="t1", cents=7) == {"refunded": 7}


def test_not_done_may_be_tried_again(team: ApprovalTeam, bank: Bank) -> None:
    bank.raises = NotDone("no money")
    for _ in range(2):
        with pytest.raises(NotDone):
            team.il.once("refund:1", bank.refund, "t1")
    bank.raises = None
    assert team.il.once("refund:1", bank.refund, "t1") == {"refunded": 5}
    assert team.il.get_effect("refund:1").fence == 3


@pytest.mark.parametrize("error", [ValueError("?"), TimeoutError(), KeyboardInterrupt(), SystemExit(1)])
def test_any_other_exception_leaves_the_outcome_unknown_and_is_raised(
    team: ApprovalTeam, bank: Bank, error: BaseException
) -> None:
    bank.raises = error
    with pytest.raises(type(error)) as raised:
        team.il.once("refund:1", bank.refund, "t1")
    assert "AMBIGUOUS" in raised.value.__notes__[0]
    bank.raises = None
    with pytest.raises(Ambiguous, match="resolve"):
        team.il.once("refund:1", bank.refund, "t1")
    assert len(bank.calls) == 1


def test_reconcile_asks_the_remote_side_and_its_answer_is_recorded(team: ApprovalTeam, bank: Bank) -> None:
    bank.raises = ValueError("lost connection")
    for action in ("yes", "no", "who knows"):
        with pytest.raises(ValueError, match="lost"):
            team.il.once(action, bank.refund, "t1")
    bank.raises = None
    keys: list[str] = []

    def remember(effect: Any) -> Committed:
        keys.append(effect.downstream_key)
        return Committed({"refunded": 99}, evidence={"bank": "found"})

    assert team.il.once("yes", bank.refund, "t1", reconcile=remember) == {"refunded": 99}
    assert team.il.once("yes", bank.refund, "t1") == {"refunded": 99}
    assert keys == [team.il.get_effect("yes").downstream_key]
    assert team.il.once("no", bank.refund, "t1", reconcile=lambda _: NotCommitted()) == {"refunded": 5}
    with pytest.raises(Ambiguous):
        team.il.once("who knows", bank.refund, "t1", reconcile=lambda _: Unknown())
    assert len(bank.calls) == 4


def test_reconcile_is_not_asked_about_what_is_known(team: ApprovalTeam, bank: Bank) -> None:
    def never(effect: Any) -> Unknown:
        raise AssertionError(effect)

    for _ in range(2):
        assert team.il.once("refund:1", bank.refund, "t1", reconcile=never) == {"refunded": 5}


def test_an_agent_cannot_clear_its_own_doubt(team: ApprovalTeam, bank: Bank) -> None:
    issued = team.il.call("POST", "principals", "bot", "keys", body={"kind": "agent", "roles": ["submit"]})
    with Interlock(store=team.il.store, key=issued["key"]) as bot:
        bank.raises = ValueError("lost")
        with pytest.raises(ValueError, match="lost"):
            bot.once("refund:1", bank.refund, "t1")
        with pytest.raises(Forbidden):
            bot.once("refund:1", bank.refund, "t1", reconcile=lambda _: NotCommitted())
    assert len(bank.calls) == 1


def test_one_that_is_running_elsewhere_is_busy(team: ApprovalTeam, bank: Bank) -> None:
    with Interlock(store=team.il.store, retry=NO_RETRIES) as other:

        def nested(txn: str) -> str:
            with pytest.raises(Busy) as busy:
                other.once("refund:1", nested, txn)
            return busy.value.code

        assert team.il.once("refund:1", nested, "t1") == "effect_in_progress"


def test_a_large_result_is_replayed_whole(team: ApprovalTeam) -> None:
    def large() -> str:
        return "x" * 200_000

    assert team.il.once("large", large) == team.il.once("large", large) == "x" * 200_000


def test_a_result_that_is_not_json_is_committed_all_the_same_and_said_aloud(team: ApprovalTeam) -> None:
    ran: list[int] = []

    def odd() -> object:
        ran.append(1)
        return object()

    with pytest.raises(InvalidRequest, match="is committed"):
        team.il.once("odd", odd)
    assert "not_json" in cast("dict[str, str]", team.il.once("odd", odd))
    assert ran == [1]


def test_a_decorated_function_is_named_by_its_arguments(team: ApprovalTeam) -> None:
    ran: list[str] = []

    @team.il.effect(key=lambda txn, **_: f"pay:{txn}")
    def pay(txn: str, *, cents: int = 3, downstream_key: str = "") -> int:
        """Pay."""
        ran.append(downstream_key)
        return cents

    assert [pay("a"), pay("a"), pay("b")] == [3, 3, 3]
    assert len(ran) == len(set(ran)) == 2
    assert (pay.__name__, pay.__doc__) == ("pay", "Pay.")


def test_a_block_commits_what_it_says_even_if_it_fails_afterwards(team: ApprovalTeam) -> None:
    def fails_late() -> None:
        with team.il.effect_scope("scope", request={"a": 1}) as effect:
            assert effect.downstream_key.startswith("ilk_")
            effect.commit({"done": True})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails_late()
    with team.il.effect_scope("scope", request={"a": 1}) as again:
        assert (again.replayed, again.result) == (True, {"done": True})


def test_a_block_that_says_nothing_leaves_the_outcome_unknown(team: ApprovalTeam) -> None:
    with pytest.raises(RuntimeError, match="without commit"), team.il.effect_scope("silent", request=1):
        pass
    with pytest.raises(Ambiguous), team.il.effect_scope("silent", request=1):
        raise AssertionError("it must not be entered")


def test_a_block_that_raises_not_done_may_be_entered_again(team: ApprovalTeam) -> None:
    for _ in range(2):
        with pytest.raises(NotDone), team.il.effect_scope("later", request=1):
            raise NotDone("the till is closed")


def test_async_functions_and_blocks_do_the_same(team: ApprovalTeam) -> None:
    ran: list[str] = []

    async def pay(txn: str) -> str:
        ran.append(txn)
        return txn

    async def both() -> list[Any]:
        decorated = team.ail.effect(key=lambda txn: f"decorated:{txn}")(pay)
        results = [await team.ail.once("async", pay, "t"), await team.ail.once("async", pay, "t")]
        results += [await decorated("t"), await decorated("t")]
        async with team.ail.effect_scope("block", request=1) as effect:
            effect.commit("done")
        return [*results, effect.result]

    assert asyncio.run(both()) == ["t", "t", "t", "t", "done"]
    assert len(ran) == 2


def test_a_cancelled_task_leaves_the_outcome_unknown(team: ApprovalTeam) -> None:
    async def cancelled() -> None:
        started = asyncio.Event()

        async def slow() -> None:
            started.set()
            await asyncio.sleep(3600)

        task = asyncio.ensure_future(team.ail.once("slow", slow))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert team.il.get_effect("slow").state == "AMBIGUOUS"


def test_an_async_function_needs_an_async_client_and_nothing_of_it_runs(team: ApprovalTeam) -> None:
    async def pay() -> int:
        raise AssertionError

    with pytest.raises(TypeError, match="AsyncInterlock"):
        _ = team.il.once("wrong", pay)
    assert team.il.get_effect("wrong").state == "FAILED"


def test_an_effect_under_a_lease_and_for_a_version(team: ApprovalTeam, bank: Bank) -> None:
    from interlock import Target

    team.il.touch("doc:1", "v1")
    with team.il.lease("doc:1", ttl=30) as lease:
        result = team.il.once("edit", bank.refund, "t", lease=lease, target=Target(key="doc:1", version="v1"))
        assert result == {"refunded": 5}
        with pytest.raises(Conflict) as moved:
            team.il.once("old", bank.refund, "t", lease=lease, target=Target(key="doc:1", version="v0"))
    assert moved.value.code == "superseded"


def test_an_effect_under_a_grant_takes_one_use_that_fits_its_arguments(
    team: ApprovalTeam, bank: Bank
) -> None:
    team.il.issue_grant("refund", pins={"cents": {"max": 10}})
    with pytest.raises(Denied) as dear:
        team.il.once("refund:2", bank.refund, "t", 11, grant="refund")
    assert (dear.value.code, bank.calls) == ("not_claimed", [])
    assert team.il.once("refund:1", bank.refund, "t", 7, grant="refund") == {"refunded": 7}
    used = team.il.get_effect("refund:1").grant
    assert used is not None
    assert (used.task, used.use) == ("refund", 1)
    with (
        pytest.raises(Denied),
        team.il.effect_scope(
            "refund:3", request={"cents": 7}, grant={"task": "refund", "args": {"cents": 7}}
        ),
    ):
        raise AssertionError("the block must not be entered")


def test_a_decorated_function_needs_its_grant_for_every_call(team: ApprovalTeam) -> None:
    ran: list[str] = []

    @team.il.effect(key=lambda txn, **_: f"refund:{txn}", grant="refund")
    def refund(txn: str) -> str:
        ran.append(txn)
        return txn

    team.il.issue_grant("refund", pins={"txn": "t1"})
    assert (refund("t1"), refund("t1")) == ("t1", "t1")
    with pytest.raises(Denied):
        refund("t2")
    assert ran == ["t1"]


def test_an_effect_under_a_lease_of_a_session_names_the_session(team: ApprovalTeam, bank: Bank) -> None:
    with team.il.lease("doc:1", ttl=30, session="tab-1") as lease:
        assert team.il.once("edit", bank.refund, "t", lease=lease) == {"refunded": 5}

"""Odd functions, words, names and results: an effect that happened is committed, and one that did not is not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from interlock import Ambiguous, Conflict, InvalidRequest, NotDone, NotFound
from tests.sdk.approval_team import ApprovalTeam


def test_a_result_that_the_service_refuses_is_committed_all_the_same(team: ApprovalTeam) -> None:
    calls: list[int] = []

    def odd() -> str:
        calls.append(1)
        return "a\0b"

    with pytest.raises(InvalidRequest, match="it is committed"):
        team.il.once("odd", odd)
    assert team.il.get_effect("odd").state == "COMMITTED"
    assert (team.il.once("odd", odd), calls) == ({"not_json": "'a\\x00b'"}, [1])


@pytest.mark.parametrize("said", ["the file \udcff.txt is gone", "a\0b"])
def test_nothing_done_is_recorded_whatever_characters_say_so(team: ApprovalTeam, said: str) -> None:
    def refuse() -> None:
        raise NotDone(said)

    with pytest.raises(NotDone):
        team.il.once("odd", refuse)
    assert team.il.get_effect("odd").state == "FAILED"


def test_an_error_that_cannot_be_spelled_is_raised_and_recorded(team: ApprovalTeam) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no words")

    def break_silently() -> None:
        raise Mute

    with pytest.raises(Mute):
        team.il.once("mute", break_silently)
    assert team.il.get_effect("mute").state == "AMBIGUOUS"


def test_a_generator_is_no_effect_for_a_call_runs_nothing_of_it(team: ApprovalTeam) -> None:
    def pay() -> Iterator[int]:
        yield 1

    async def pay_slowly() -> AsyncIterator[int]:
        yield 1

    for function in (pay, pay_slowly):
        with pytest.raises(InvalidRequest, match="yields"):
            team.il.once("pay", function)
        with pytest.raises(TypeError, match="returns"):
            team.il.effect(key=lambda: "pay")(function)
    with pytest.raises(NotFound):
        team.il.get_effect("pay")


def test_a_key_that_is_no_name_does_not_name_every_call(team: ApprovalTeam) -> None:
    @team.il.effect(key=lambda txn: None)  # type: ignore[arg-type, return-value]
    def pay(txn: str) -> str:
        raise AssertionError(txn)

    with pytest.raises(InvalidRequest, match="must return text or an integer, not NoneType"):
        pay("t1")


def test_a_function_is_the_same_wherever_it_is_defined(team: ApprovalTeam) -> None:
    def before_the_crash() -> Callable[[str], str]:
        def refund(txn: str) -> str:
            raise AssertionError(f"the process dies while it refunds {txn}")

        return refund

    def refund(txn: str) -> str:
        raise AssertionError(f"{txn} was refunded again")

    with pytest.raises(AssertionError, match="the process dies"):
        team.il.once("refund:1", before_the_crash(), "t1")
    with pytest.raises(Ambiguous):
        team.il.once("refund:1", refund, "t1")


def test_another_function_with_the_same_arguments_is_another_request(team: ApprovalTeam) -> None:
    def charge(txn: str) -> str:
        return f"charged {txn}"

    def refund(txn: str) -> str:
        raise AssertionError(f"{txn} was refunded under the name of its charge")

    team.il.once("t1", charge, "t1")
    with pytest.raises(Conflict):
        team.il.once("t1", refund, "t1")

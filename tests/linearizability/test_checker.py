"""The checker accepts what can be ordered, refuses what cannot, and finds planted bugs."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.linearizability.checker import UNKNOWN, Operation, TooHard, check
from tests.linearizability.models import RegisterModel


def op(call: str, given: object, answer: object, invoked: float, answered: float) -> Operation:
    return Operation(key="x", call=call, given=given, answer=answer, invoked=invoked, answered=answered)


def test_an_empty_history_holds() -> None:
    assert check([], RegisterModel()).holds


def test_a_read_after_a_write_must_see_it() -> None:
    history = [op("write", 1, "ok", 0, 1), op("read", None, 0, 2, 3)]
    verdict = check(history, RegisterModel())
    assert not verdict.holds
    assert "read(None) -> 0" in verdict.explain()


def test_a_read_during_a_write_may_see_either() -> None:
    for seen in (0, 1):
        assert check([op("write", 1, "ok", 0, 3), op("read", None, seen, 1, 2)], RegisterModel()).holds


def test_two_reads_in_turn_do_not_go_back() -> None:
    history = [op("write", 1, "ok", 0, 9), op("read", None, 1, 1, 2), op("read", None, 0, 3, 4)]
    assert not check(history, RegisterModel()).holds


@pytest.mark.parametrize("seen", [0, 1])
def test_a_lost_write_may_have_happened_or_not(seen: int) -> None:
    lost = replace(op("write", 1, UNKNOWN, 0, 1), answered=float("inf"))
    assert check([lost, op("read", None, seen, 2, 3)], RegisterModel()).holds


def test_a_lost_write_may_take_effect_late_but_only_once() -> None:
    lost = replace(op("write", 1, UNKNOWN, 0, 1), answered=float("inf"))
    reads = [op("read", None, seen, n, n + 0.5) for n, seen in enumerate((0, 1, 1), start=1)]
    assert check([lost, *reads], RegisterModel()).holds
    undone = [op("read", None, seen, n, n + 0.5) for n, seen in enumerate((0, 1, 0), start=1)]
    assert not check([lost, *undone], RegisterModel()).holds


def test_a_lost_write_does_not_take_effect_before_it_was_called() -> None:
    lost = Operation(key="x", call="write", given=1, invoked=5)
    assert not check([op("read", None, 1, 1, 2), lost], RegisterModel()).holds


def test_things_do_not_matter_to_each_other() -> None:
    fine = op("write", 1, "ok", 0, 1)
    wrong = replace(op("read", None, 7, 2, 3), key="y")
    verdict = check([fine, wrong], RegisterModel())
    assert (verdict.holds, verdict.key) == (False, "y")


def test_a_search_that_is_too_hard_says_so_instead_of_guessing() -> None:
    writes = [op("write", n, "ok", 0, 100) for n in range(14)]
    with pytest.raises(TooHard):
        check([*writes, op("read", None, 99, 0, 100)], RegisterModel(), states_max=500)


_TIMES = st.tuples(st.integers(0, 8), st.integers(1, 4))
_OPERATIONS = st.builds(
    lambda call, value, lost, times: op(
        call,
        value if call == "write" else None,
        UNKNOWN if lost else ("ok" if call == "write" else value),
        times[0],
        float("inf") if lost else times[0] + times[1],
    ),
    st.sampled_from(["read", "write"]),
    st.integers(0, 2),
    st.booleans(),
    _TIMES,
)


@given(st.lists(_OPERATIONS, max_size=6))
def test_it_agrees_with_trying_every_order(history: list[Operation]) -> None:
    assert check(history, RegisterModel()).holds == _has_an_order(history)


def _has_an_order(history: list[Operation]) -> bool:
    known = [operation for operation in history if operation.is_known]
    lost = [operation for operation in history if not operation.is_known and operation.call == "write"]
    for chosen in range(1 << len(lost)):
        some = known + [operation for place, operation in enumerate(lost) if chosen >> place & 1]
        if any(_is_legal(order) for order in permutations(some)):
            return True
    return False


def _is_legal(order: tuple[Operation, ...]) -> bool:
    value = 0
    for place, operation in enumerate(order):
        if any(later.answered < operation.invoked for later in order[place + 1 :]):
            return False
        if operation.call == "write":
            value = operation.given
        elif operation.answer != value:
            return False
    return True

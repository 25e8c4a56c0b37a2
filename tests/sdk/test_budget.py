"""The retry budget's one promise, whatever the order of calls and retries."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from interlock.sdk.retry import BudgetSettings, RetryBudget


def test_a_new_client_has_a_small_allowance() -> None:
    budget = RetryBudget(BudgetSettings())
    assert [budget.spend() for _ in range(11)] == [True] * 10 + [False]


def test_a_spent_budget_earns_one_retry_in_ten_calls() -> None:
    budget = RetryBudget(BudgetSettings(allowance=0))
    allowed = 0
    for _ in range(1000):
        budget.earn()
        allowed += budget.spend()
    assert allowed == 100


def test_a_quiet_past_cannot_be_saved_up() -> None:
    budget = RetryBudget(BudgetSettings())
    for _ in range(100_000):
        budget.earn()
    assert [budget.spend() for _ in range(3)] == [True, False, False]


@given(st.lists(st.booleans(), min_size=1, max_size=600))
def test_once_warm_retries_are_at_most_a_tenth_of_calls_and_one(steps: list[bool]) -> None:
    budget = RetryBudget(BudgetSettings())
    while not budget.warm:
        budget.earn()
    calls = retries = 0
    for is_call in steps:
        if is_call:
            budget.earn()
            calls += 1
        else:
            retries += budget.spend()
        assert retries <= calls / 10 + 1 + 1e-6


def test_threads_cannot_overspend() -> None:
    budget = RetryBudget(BudgetSettings(allowance=50))
    allowed: list[bool] = []
    spend = [
        threading.Thread(target=lambda: allowed.extend(budget.spend() for _ in range(100))) for _ in range(8)
    ]
    for thread in spend:
        thread.start()
    for thread in spend:
        thread.join()
    assert sum(allowed) == 50

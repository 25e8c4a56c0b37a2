"""Budgets: what all uses together may add up to, to the last cent and not a crumb more."""

from __future__ import annotations

import asyncio

import pytest

from tests.rooms.grants.conftest import Granting


async def test_uses_together_never_exceed_the_budget(granting: Granting) -> None:
    budget = {"path": "cents", "total_max": 1000}
    grant = await granting.grant(uses=100, budget=budget, pins={"cents": {"max": 500}})

    answers = await asyncio.gather(*(granting.claim({"cents": 300}) for _ in range(10)))

    assert sum(answer["claimed"] for answer in answers) == 3
    assert (await granting.claim({"cents": 100}))["claimed"]
    after = await granting.claim({"cents": 1})
    assert "1000 of 1000 is spent" in after["reason"]
    assert (await granting.read(grant))["spent"] == {"cents": 1000}


async def test_a_negative_amount_does_not_refill_a_budget(granting: Granting) -> None:
    await granting.grant(uses=10, limits=[{"path": "cents", "total_max": 100}])
    assert not (await granting.claim({"cents": -100}))["claimed"]


async def test_a_budget_of_fractions_can_be_used_up_exactly(granting: Granting) -> None:
    grant = await granting.grant(uses=10, limits=[{"path": "euros", "total_max": 0.3}])

    answers = [await granting.claim({"euros": 0.1}) for _ in range(4)]

    assert [answer["claimed"] for answer in answers] == [True, True, True, False]
    assert (await granting.read(grant))["spent"] == {"euros": 0.3}


@pytest.mark.parametrize(
    ("total_max", "amounts"),
    [
        (50_000, [50_000, 1e-12]),
        (2**52, [2**52, 0.5]),
        (2**53 - 1, [2**53 - 2.5, 1.75]),
        (1.0, [0.9, 0.1, 5e-324]),
    ],
)
async def test_what_a_double_cannot_hold_is_too_much_all_the_same(
    granting: Granting, total_max: float, amounts: list[float]
) -> None:
    await granting.grant(uses=10, budget={"path": "a", "total_max": total_max})

    answers = [await granting.claim({"a": amount}) for amount in amounts]

    assert [answer["claimed"] for answer in answers] == [True] * (len(amounts) - 1) + [False]


async def test_what_a_double_cannot_hold_counts_as_more_and_never_as_less(granting: Granting) -> None:
    grant = await granting.grant(uses=10, budget={"path": "a", "total_max": 2**53 - 1})

    for amount in (2**52, 0.25, 0.25):
        assert (await granting.claim({"a": amount}))["claimed"]

    assert (await granting.stored(grant)).spent["a"] >= 2**52 + 0.5

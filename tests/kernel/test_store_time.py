"""What is shown is judged by the store's clock, also where this machine's is wrong."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from interlock.kernel.clock import StoreTime

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize("ahead", [HOUR, -HOUR, timedelta(seconds=1), timedelta(seconds=-1)])
def test_a_machine_whose_clock_is_wrong_goes_by_the_stores(ahead: timedelta) -> None:
    machine = [NOON]
    time = StoreTime(lambda: machine[0])

    time.heard(NOON + ahead)
    machine[0] += HOUR

    assert time.now() == NOON + HOUR + ahead


def test_what_it_takes_to_read_the_clock_is_no_difference_between_clocks() -> None:
    time = StoreTime(lambda: NOON)

    time.heard(NOON - timedelta(milliseconds=900))

    assert time.now() == NOON


def test_the_last_word_of_the_store_holds() -> None:
    time = StoreTime(lambda: NOON)
    time.heard(NOON + HOUR)

    time.heard(NOON)

    assert time.now() == NOON

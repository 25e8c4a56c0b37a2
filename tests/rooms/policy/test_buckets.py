"""Token buckets give what the rate says: never more, and nothing is lost to rounding."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.rooms.policy.language import Rate, Throttle
from interlock.rooms.policy.rules import TOKEN, BucketLevel, Empty, Taken, take
from tests.rooms.policy.policy_strategies import rates

START = datetime(2026, 3, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def throttle(rate: Rate, burst: int) -> Throttle:
    return Throttle(rate=rate, burst=burst)


TEN_A_MINUTE = throttle(Rate(count=10, per="m"), 3)


def drain(bucket: BucketLevel | None, by: Throttle, now: datetime) -> tuple[int, BucketLevel | None, Empty]:
    taken = 0
    while isinstance(result := take(bucket, by, now), Taken):
        taken, bucket = taken + 1, result.level
    return taken, bucket, result


def test_a_new_bucket_gives_its_burst_and_then_one_for_each_interval() -> None:
    taken, bucket, empty = drain(None, TEN_A_MINUTE, START)
    assert (taken, empty.retry_after) == (3, timedelta(seconds=6))
    assert isinstance(take(bucket, TEN_A_MINUTE, START + timedelta(seconds=6) - MICROSECOND), Empty)
    assert isinstance(take(bucket, TEN_A_MINUTE, START + timedelta(seconds=6)), Taken)


def test_a_bucket_never_holds_more_than_its_burst() -> None:
    _, bucket, _ = drain(None, TEN_A_MINUTE, START)
    taken, _, _ = drain(bucket, TEN_A_MINUTE, START + timedelta(days=400))
    assert taken == 3


def test_full_at_is_when_the_bucket_is_as_good_as_new() -> None:
    result = take(None, TEN_A_MINUTE, START)
    assert isinstance(result, Taken)
    assert result.full_at == START + timedelta(seconds=6)
    assert drain(result.level, TEN_A_MINUTE, result.full_at)[0] == 3
    assert drain(result.level, TEN_A_MINUTE, result.full_at - MICROSECOND)[0] == 2


def test_a_clock_that_goes_back_gives_nothing_and_repeats_nothing() -> None:
    _, bucket, _ = drain(None, TEN_A_MINUTE, START)
    earlier = take(bucket, TEN_A_MINUTE, START - timedelta(hours=1))
    assert isinstance(earlier, Empty)
    assert earlier.retry_after == timedelta(hours=1, seconds=6)
    taken, bucket, _ = drain(bucket, TEN_A_MINUTE, START + timedelta(seconds=12))
    assert taken == 2
    assert drain(bucket, TEN_A_MINUTE, START)[0] == 0
    assert drain(bucket, TEN_A_MINUTE, START + timedelta(seconds=12))[0] == 0


def test_a_full_bucket_can_be_used_while_the_clock_is_behind() -> None:
    result = take(None, TEN_A_MINUTE, START)
    assert isinstance(result, Taken)
    assert isinstance(take(result.level, TEN_A_MINUTE, START - timedelta(days=1)), Taken)


def test_a_smaller_burst_takes_effect_at_once() -> None:
    full = BucketLevel(parts=20 * TOKEN, as_of=START)
    assert drain(full, throttle(Rate(count=10, per="m"), 2), START)[0] == 2


def test_a_level_stays_within_what_every_json_reader_holds() -> None:
    assert 100_000 * TOKEN <= 2**53 - 1


@pytest.mark.parametrize("per", ["s", "m", "h", "d"])
def test_odd_rates_do_not_drift(per: str) -> None:
    # With a burst of one, what a rounded-up wait brings above a token would be cut off: the bucket is full.
    odd = throttle(Rate(count=7, per=per), 2)  # type: ignore[arg-type]
    _, bucket, empty = drain(None, odd, START)
    now, taken = START, 0
    for _ in range(1000):
        now += empty.retry_after
        result = take(bucket, odd, now)
        assert isinstance(result, Taken)
        taken, bucket = taken + 1, result.level
        again = take(bucket, odd, now)
        assert isinstance(again, Empty)
        empty = again
    # Each token came within a microsecond of when it was due, the thousandth too.
    due = Fraction(taken * odd.rate.period_seconds * 1_000_000, 7)
    assert 0 <= (now - START) // MICROSECOND - due < 1


steps = st.lists(
    st.tuples(st.integers(-2_000_000, 90_000_000) | st.integers(0, 2000), st.integers(1, 4)), max_size=40
)


@given(rates, st.integers(1, 20), steps)
def test_no_window_gives_more_than_burst_and_rate_allow(
    rate: Rate, burst: int, steps: list[tuple[int, int]]
) -> None:
    by, bucket, now = throttle(rate, burst), None, START
    takes: list[datetime] = []
    for pause, tries in steps:
        now += timedelta(microseconds=pause)
        for _ in range(tries):
            result = take(bucket, by, now)
            if isinstance(result, Taken):
                bucket = result.level
                takes.append(max([now, *takes[-1:]]))
    for first, begin in enumerate(takes):
        for last in range(first, len(takes)):
            span = (takes[last] - begin) // MICROSECOND
            allowed = burst + Fraction(span * rate.count, rate.period_seconds * 1_000_000)
            assert last - first + 1 <= allowed


@given(rates, st.integers(1, 20), st.integers(0, 10**12))
def test_the_wait_that_is_named_is_exactly_long_enough(rate: Rate, burst: int, pause: int) -> None:
    by = throttle(rate, burst)
    _, bucket, _ = drain(None, by, START)
    now = START + timedelta(microseconds=pause % max(1, rate.period_seconds * 1_000_000 // rate.count))
    result = take(bucket, by, now)
    if isinstance(result, Empty):
        assert isinstance(take(bucket, by, now + result.retry_after), Taken)
        assert isinstance(take(bucket, by, now + result.retry_after - MICROSECOND), Empty)

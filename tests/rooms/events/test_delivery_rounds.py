"""Rounds of posting, planned without doing them; types, backoff and signatures."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock import rooms
from interlock.channels.nats import has_lost
from interlock.rooms.events.cloud_events import TYPES_MAX, BadTypes, read_types, wants
from interlock.rooms.events.deliveries import (
    FRESH_MAX,
    SICK_SUBJECTS,
    WAITING_MAX,
    Backoff,
    choose_fresh,
    next_due,
    plan_round,
    refused,
)
from interlock.rooms.events.model import (
    EVENT_TYPES,
    BrokerMark,
    Delivery,
    DeliveryState,
    Event,
    PlacedEvent,
    Relay,
)
from interlock.rooms.events.signing import BadSecret, read_secret, signature, spell_secret

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ROOMS = Path(rooms.__file__).parent


def delivery(
    subject: str, position: int, *, rests: float = 0, attempts: int = 0, stored: bool = True
) -> Delivery:
    return Delivery(
        tenant="t", id=f"wh.{position}", version=int(stored), webhook="wh", event_id=str(position), type="x",
        subject=subject, position=position, body="{}", attempts=attempts, since=NOW,
        next_attempt_at=NOW + timedelta(seconds=rests),
    )  # fmt: skip


def placed(subject: str, position: int) -> PlacedEvent:
    return PlacedEvent(position, Event(tenant="t", id=str(position), at=NOW, type="x", subject=subject))


def relay(failures: int = 0, retry_in: float = 0) -> Relay:
    retry_at = NOW + timedelta(seconds=retry_in) if failures else None
    return Relay(tenant="t", id="wh", failures=failures, retry_at=retry_at, moved_at=NOW)


def test_a_new_event_goes_behind_one_of_its_subject_that_rests() -> None:
    planned = plan_round([delivery("a", 1, rests=5)], [delivery("a", 2, stored=False)], NOW)
    assert planned.lanes == []
    assert [each.position for each in planned.parked] == [2]


def test_a_lane_is_due_by_its_first_event_and_tried_in_order() -> None:
    waiting = [delivery("a", 1), delivery("a", 2, rests=50), delivery("b", 3, rests=5)]
    planned = plan_round(waiting, [delivery("a", 4, stored=False), delivery("c", 5, stored=False)], NOW)
    assert [[each.position for each in lane] for lane in planned.lanes] == [[1, 2, 4], [5]]
    assert planned.parked == []


subjects = st.lists(st.sampled_from("abcd"), max_size=30)


@given(subjects, st.integers(0, 30), st.sets(st.sampled_from("abcd")))
def test_a_round_never_tries_an_event_before_an_earlier_one_of_its_subject(
    names: list[str], split: int, resting: set[str]
) -> None:
    every = [
        delivery(name, n + 1, rests=5 if name in resting and n < split else 0, stored=n < split)
        for n, name in enumerate(names)
    ]
    planned = plan_round(every[:split], every[split:], NOW)
    for lane in planned.lanes:
        assert [each.position for each in lane] == sorted(each.position for each in lane)
        earlier = [each for each in every if each.subject == lane[0].subject]
        assert earlier[0] is lane[0], "an earlier event of the subject is left behind"
    accounted = {each.id for lane in planned.lanes for each in lane} | {each.id for each in planned.parked}
    assert {each.id for each in every[split:]} <= accounted, "a new event is neither tried nor kept"


def test_many_events_are_taken_on_while_all_is_well_and_none_when_too_many_wait() -> None:
    wanted = [placed("a", n) for n in range(1, 300)]
    assert len(choose_fresh(relay(), [], wanted, NOW)) == FRESH_MAX
    waiting = [delivery(str(n), n) for n in range(WAITING_MAX)]
    assert choose_fresh(relay(), waiting, wanted, NOW) == []


def test_one_sick_subject_does_not_keep_others_from_being_tried() -> None:
    waiting = [delivery("sick", 1, rests=50, attempts=3)]
    wanted = [placed("sick", 2), placed("sick", 3), placed("well", 4), placed("well", 5)]
    chosen = choose_fresh(relay(failures=3, retry_in=50), waiting, wanted, NOW)
    assert [each.position for each in chosen] == [2, 3, 4]


def test_a_target_that_takes_nothing_is_probed_only_when_it_is_time() -> None:
    waiting = [delivery(str(n), n, rests=50, attempts=1) for n in range(SICK_SUBJECTS)]
    wanted = [placed("next", 9), placed("other", 10)]
    assert choose_fresh(relay(failures=2, retry_in=5), waiting, wanted, NOW) == []
    assert len(choose_fresh(relay(failures=2, retry_in=-1), waiting, wanted, NOW)) == 1


def test_rests_double_up_to_a_bound_and_jitter_takes_at_most_half() -> None:
    backoff = Backoff(base_seconds=1, most_seconds=10)
    assert [backoff.rest(n, 0.0) for n in range(1, 7)] == [1, 2, 4, 8, 10, 10]
    assert backoff.rest(3, 1.0) == 2
    assert backoff.rest(10_000, 0.0) == 10


def test_the_last_attempt_makes_a_dead_letter() -> None:
    once = refused(delivery("a", 1), "no", NOW, 5, attempts_max=2)
    twice = refused(once, "no", NOW, 5, attempts_max=2)
    assert (once.state, once.next_attempt_at) == (DeliveryState.WAITING, NOW + timedelta(seconds=5))
    assert (twice.state, twice.attempts) == (DeliveryState.DEAD, 2)


def test_the_next_round_is_due_with_the_first_event_of_a_subject() -> None:
    waiting = [delivery("a", 1, rests=9), delivery("a", 2, rests=1), delivery("b", 3, rests=7)]
    assert next_due(waiting) == NOW + timedelta(seconds=7)
    assert next_due([]) is None


@pytest.mark.parametrize(
    ("patterns", "event_type", "wanted"),
    [
        ([], "job.failed", True),
        (["*"], "job.failed", True),
        (["job.*"], "job.failed", True),
        (["job.*"], "jobs.failed", False),
        (["job.*"], "job", False),
        (["job.failed"], "job.failed", True),
        (["job.failed"], "job.failed.twice", False),
        (["dev.interlock.job.failed"], "job.failed", True),
        (["approval.*", "job.denied"], "job.failed", False),
        (["approval.*", "job.failed"], "job.failed", True),
    ],
)
def test_types_are_wanted_by_name_or_leading_part(
    patterns: list[str], event_type: str, *, wanted: bool
) -> None:
    assert wants(read_types(patterns), event_type) is wanted


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "Job",
        "job",
        "job.",
        ".failed",
        "job.**",
        "a b",
        "job.*.x",
        "job.done",
        "jobs.*",
        "job.failed.*",
        "**",
    ],
)
def test_a_type_that_can_match_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(BadTypes):
        read_types([pattern])


def test_a_refused_type_is_told_with_those_that_exist() -> None:
    with pytest.raises(BadTypes, match=r"'approval.granted'; use approval\.\* or one of approval.approved, "):
        read_types(["approval.granted"])
    with pytest.raises(BadTypes, match=r"'payment.\*'; use approval\.\*, conflict\.\*, .*target\.\*$"):
        read_types(["payment.*"])


@pytest.mark.parametrize("event_type", EVENT_TYPES)
def test_every_type_can_be_asked_for_and_is_announced_by_a_room(event_type: str) -> None:
    assert wants(read_types([event_type]), event_type)
    sources = (path.read_text() for path in ROOMS.rglob("*.py") if path.parent.name != "events")
    assert any(f'"{event_type}"' in source for source in sources)


def test_so_many_types_may_be_named_and_no_more() -> None:
    nouns = dict.fromkeys(each.partition(".")[0] for each in EVENT_TYPES)
    every = [*EVENT_TYPES, *(f"{noun}.*" for noun in nouns)]
    assert len(read_types(every[:TYPES_MAX])) == TYPES_MAX
    with pytest.raises(BadTypes, match=f"{TYPES_MAX} at most"):
        read_types(f"job.t{number}" for number in range(TYPES_MAX + 1))


def test_a_signature_is_the_one_of_the_specification() -> None:
    # The example of the Standard Webhooks specification's reference libraries.
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body = b'{"test": 2432232314}'
    signed = signature(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize(
    "secret", ["", "whsec_", "whsec_c2hvcnQ=", "whsec_***", "c2VjcmV0" * 5, "whsec_" + "A" * 200]
)
def test_a_secret_that_is_weak_or_misspelt_is_refused(secret: str) -> None:
    with pytest.raises(BadSecret):
        read_secret(secret)


def test_a_secret_reads_as_it_is_spelt() -> None:
    assert read_secret(spell_secret(b"k" * 32)) == b"k" * 32


@pytest.mark.parametrize(
    ("known", "found", "lost"),
    [
        (None, BrokerMark("a", 0), True),
        (BrokerMark("a", 5), BrokerMark("a", 5), False),
        (BrokerMark("a", 5), BrokerMark("a", 9), False),
        (BrokerMark("a", 5), BrokerMark("a", 4), True),
        (BrokerMark("a", 5), BrokerMark("b", 9), True),
    ],
)
def test_a_stream_that_is_another_or_ends_too_early_has_lost_something(
    known: BrokerMark | None, found: BrokerMark, *, lost: bool
) -> None:
    assert has_lost(known, found) is lost

"""Each scene's promises against answers that a broken Interlock would give: every one of them is noticed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from interlock.demo.processes import RESERVED
from interlock.demo.scenes import decisions, workers
from interlock.demo.story import Answer, Histogram, Promise


def answer(status: int, word: str, **body: Any) -> Answer:
    return Answer(status, word, body, raw=repr(body).encode())


def broken(promises: Sequence[Promise]) -> list[str]:
    return [promise.text for promise in promises if not promise.kept]


GOOD: Histogram = Counter(
    {(200, "approved"): 1, (200, "already_approved"): 19, (409, "already_approved"): 20}
)


def test_one_winner_and_thirty_nine_clear_answers_keep_every_promise() -> None:
    assert broken(decisions.one_winner(GOOD)) == []
    rejected: Histogram = Counter(
        {(200, "rejected"): 1, (200, "already_rejected"): 19, (409, "already_rejected"): 20}
    )
    assert broken(decisions.one_winner(rejected)) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {(200, "approved"): 2, (200, "already_approved"): 18, (409, "already_approved"): 20},
        {(200, "approved"): 1, (200, "rejected"): 1, (409, "already_approved"): 38},
        {(200, "already_approved"): 20, (409, "already_approved"): 20},
        {(200, "approved"): 1, (200, "already_approved"): 19, (409, "already_approved"): 19},
        {(200, "approved"): 1, (200, "already_approved"): 19, (409, "already_rejected"): 20},
        {(200, "approved"): 1, (200, "already_approved"): 19, (409, "lock_busy"): 20},
        {(200, "approved"): 1, (200, "already_approved"): 38, (500, "internal_error"): 1},
        {(503, "store_unavailable"): 40},
        {},
    ],
)
def test_any_other_histogram_of_the_race_breaks_a_promise(wrong: dict[tuple[int, str], int]) -> None:
    assert broken(decisions.one_winner(Counter(wrong)))


def test_a_race_in_which_all_agree_keeps_every_promise() -> None:
    answers = [answer(200, "approved", decision_id="d1"), answer(409, "already_approved", decision_id="d1")]
    assert broken(decisions.one_story(answers, "PENDING", ["approve"])) == []


@pytest.mark.parametrize(
    ("decision", "state", "deciding"),
    [
        ("d2", "PENDING", ["approve"]),
        (None, "PENDING", ["approve"]),
        ("d1", "DENIED", ["approve"]),
        ("d1", "PENDING", ["approve", "approve"]),
        ("d1", "PENDING", ["approve", "reject"]),
        ("d1", "PENDING", []),
    ],
)
def test_a_race_with_two_stories_breaks_a_promise(
    decision: str | None, state: str, deciding: list[str]
) -> None:
    answers = [
        answer(200, "approved", decision_id="d1"),
        answer(409, "already_approved", decision_id=decision),
    ]
    assert broken(decisions.one_story(answers, state, deciding))


def test_two_people_keep_every_promise_and_one_does_not() -> None:
    asked, denied = answer(202, "APPROVAL"), answer(403, "policy_denied")
    own, agent = answer(403, "self_approval"), answer(403, "people_only")
    assert broken(decisions.people(asked, own, agent)) == []
    assert len(broken(decisions.people(answer(201, "PENDING"), answer(200, "approved"), asked))) == 3
    first, second = answer(200, "vote_recorded", votes=1), answer(200, "approved", state="PENDING")
    assert broken(decisions.quorum(first, first, second)) == []
    assert broken(decisions.quorum(first, answer(200, "approved", votes=2), second))
    assert broken(decisions.quorum(first, answer(200, "vote_recorded", votes=2), second))
    assert broken(decisions.quorum(first, first, first))
    assert broken(decisions.others(answer(201, "PENDING"), denied)) == []
    assert len(broken(decisions.others(asked, answer(201, "PENDING")))) == 2


def test_a_vote_under_a_policy_that_is_gone_breaks_a_promise() -> None:
    before, refused = answer(200, "vote_recorded"), answer(409, "snapshot_changed")
    fresh = answer(200, "APPROVAL", approval={"policy_snapshot": "new", "votes": []})
    assert broken(decisions.nothing_stale(before, refused, fresh, "new")) == []
    assert broken(decisions.nothing_stale(before, answer(200, "approved"), fresh, "new"))
    assert broken(decisions.nothing_stale(before, refused, fresh, "newer"))
    kept = answer(200, "APPROVAL", approval={"policy_snapshot": "new", "votes": [{"principal": "noor"}]})
    assert broken(decisions.nothing_stale(before, refused, kept, "new"))
    assert broken(decisions.nothing_stale(before, refused, answer(500, "internal_error"), "new"))
    assert broken(decisions.asked_anew([before, answer(200, "approved")])) == []
    assert broken(decisions.asked_anew([answer(200, "approved"), answer(200, "already_approved")]))


def test_an_answer_that_differs_by_a_byte_breaks_a_promise() -> None:
    first = Answer(202, "APPROVAL", {"id": "job_1"}, raw=b'{"id":"job_1"}')
    again = first._replace(replayed=True)
    assert broken(decisions.same_answer(first, [again])) == []
    assert broken(decisions.same_answer(first, [again._replace(raw=b'{"id": "job_1"}')]))
    assert broken(decisions.same_answer(first, [first]))
    assert broken(decisions.same_answer(first, [again._replace(status=201)]))
    assert broken(decisions.same_answer(again, [again]))
    assert broken(decisions.same_answer(first, []))


def test_a_second_payment_or_a_reused_key_breaks_a_promise() -> None:
    first, refused = answer(202, "APPROVAL", id="job_1"), answer(422, "idempotency_key_reused")
    assert broken(decisions.one_intent(first, refused, ["job_1"])) == []
    assert broken(decisions.one_intent(first, refused, ["job_2", "job_1"]))
    assert broken(decisions.one_intent(first, answer(202, "APPROVAL"), ["job_1"]))


def test_a_lost_job_or_vote_breaks_a_promise() -> None:
    jobs = {"job_1": ("APPROVAL", "sha256:1", 2)}
    assert broken(decisions.nothing_lost(jobs, dict(jobs))) == []
    assert broken(decisions.nothing_lost(jobs, {}))
    assert broken(decisions.nothing_lost(jobs, {"job_1": ("APPROVAL", "sha256:1", 1)}))
    assert broken(decisions.nothing_lost({}, {}))
    voted, approved = answer(200, "vote_recorded"), answer(200, "approved")
    assert broken(decisions.votes_kept(voted, [{"principal": "noor"}], approved)) == []
    assert broken(decisions.votes_kept(voted, [], approved))
    assert broken(decisions.votes_kept(voted, [{"principal": "noor"}], voted))


@pytest.mark.parametrize("actions", [[], ["approve", "vote"], ["approve", "vote", "vote", "submit"]])
def test_an_audit_log_that_tells_it_otherwise_breaks_a_promise(actions: list[str]) -> None:
    assert broken(decisions.told_once(["approve", "vote", "submit"])) == []
    assert broken(decisions.told_once(actions))


BEFORE = {"state": "RUNNING", "fence": 1, "attempt": 1, "checkpoint": RESERVED, "result": None}
DONE = {
    "state": "SUCCEEDED",
    "fence": 2,
    "attempt": 2,
    "checkpoint": RESERVED,
    "result": {"went_on_from": RESERVED},
}


@pytest.mark.parametrize(
    "wrong",
    [
        {"state": "FAILED"},
        {"fence": 1},
        {"attempt": 1},
        {"result": {"went_on_from": None}},
    ],
)
def test_work_that_is_not_taken_over_breaks_a_promise(wrong: dict[str, Any]) -> None:
    assert broken(workers.taken_over(BEFORE, DONE)) == []
    assert broken(workers.taken_over(BEFORE, DONE | wrong))
    assert broken(workers.taken_over(BEFORE | {"checkpoint": None}, DONE))


def test_a_latecomer_that_is_heard_breaks_a_promise() -> None:
    refused = answer(409, "fence_stale")
    assert broken(workers.latecomer(refused, DONE, dict(DONE))) == []
    assert broken(workers.latecomer(answer(200, "SUCCEEDED"), DONE, dict(DONE)))
    assert broken(workers.latecomer(refused, DONE, DONE | {"result": "late"}))


@pytest.mark.parametrize(
    ("poison", "other", "deaths", "dead"),
    [
        ({"state": "PENDING"}, {}, 2, ["job_1"]),
        ({"attempt": 3}, {}, 2, ["job_1"]),
        ({}, {"state": "PENDING"}, 2, ["job_1"]),
        ({}, {}, 3, ["job_1"]),
        ({}, {}, 2, []),
    ],
)
def test_poison_that_is_not_buried_breaks_a_promise(
    poison: dict[str, Any], other: dict[str, Any], deaths: int, dead: list[str]
) -> None:
    failed, rendered = {"id": "job_1", "state": "FAILED", "attempt": 2}, {"state": "SUCCEEDED"}
    assert broken(workers.buried(failed, rendered, 2, ["job_1"])) == []
    assert broken(workers.buried(failed | poison, rendered | other, deaths, dead))


EDITED = {"conflict_id": "cnf_1"}
NAMED = {"id": "cnf_1", "competing": [{"actor": who} for who in ("drafter", "closer", "noor")]}
TOLD = answer(200, "conflict_detected", conflict_id="cnf_1")
MOVED = answer(409, "target_changed", conflict_id="cnf_1")


@pytest.mark.parametrize(
    ("renewed", "approval", "conflict"),
    [
        (answer(200, "leased", conflict_id="cnf_1"), MOVED, NAMED),
        (TOLD, answer(200, "approved", conflict_id="cnf_1"), NAMED),
        (TOLD, MOVED, NAMED | {"competing": NAMED["competing"][1:]}),
        (TOLD, answer(409, "target_changed", conflict_id="cnf_2"), NAMED),
    ],
)
def test_an_edit_that_somebody_does_not_learn_of_breaks_a_promise(
    renewed: Answer, approval: Answer, conflict: dict[str, Any]
) -> None:
    assert broken(workers.told(TOLD, MOVED, NAMED, EDITED)) == []
    assert len(broken(workers.told(renewed, approval, conflict, EDITED))) == 1


def test_a_checkpoint_or_a_fence_that_is_lost_breaks_a_promise() -> None:
    taken = answer(201, "claimed", fence=8, predecessor={"checkpoint": workers.DONE | {"number": 1}})
    late = answer(409, "fence_stale")
    assert broken(workers.gone_on(taken, late, 7)) == []
    assert broken(workers.gone_on(taken, late, 8))
    assert broken(workers.gone_on(answer(201, "claimed", fence=8, predecessor=None), late, 7))
    assert broken(workers.gone_on(taken, answer(200, "leased"), 7))


def test_a_refund_that_is_tried_again_breaks_a_promise() -> None:
    again, resolved = answer(409, "effect_ambiguous"), answer(200, "COMMITTED")
    replayed = answer(200, "COMMITTED", replayed=True, result={"receipt": "r-88"})
    assert broken(workers.once_only("AMBIGUOUS", again, resolved, replayed)) == []
    assert broken(workers.once_only("FAILED", again, resolved, replayed))
    assert broken(workers.once_only("AMBIGUOUS", answer(201, "IN_PROGRESS"), resolved, replayed))
    assert broken(workers.once_only("AMBIGUOUS", again, resolved, answer(201, "IN_PROGRESS")))

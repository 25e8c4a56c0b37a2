"""Twenty people approve and twenty reject one job at once: one decides, and everybody gets a clear answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from interlock.demo.company import REFUND
from interlock.demo.story import Answer, Histogram, Promise, histogram_of

if TYPE_CHECKING:
    from interlock.demo.company import Company
    from interlock.demo.story import Story

RACERS = 40


def play(company: Company, story: Story) -> list[Promise]:
    """Everybody has a key, a connection and a thread of their own, and starts at the same signal."""
    racers = [company.stage.cast(f"reviewer-{number:02}") for number in range(1, RACERS + 1)]
    job_id = company.propose(REFUND, {"amount_cents": 4_200}).body["id"]
    company.stage.at_once([racer.connect for racer in racers])
    story.tell(
        f"{RACERS // 2} people approve and {RACERS // 2} reject one refund, each from a client of their own."
    )
    votes = [racer.approve if place % 2 else racer.reject for place, racer in enumerate(racers)]
    answers = company.stage.at_once([lambda vote=vote: vote(job_id) for vote in votes])
    story.show(histogram_of(answers))
    final = company.admin.get(f"jobs/{job_id}").body
    audit = company.admin.get(f"audit?subject={job_id}").body["items"]
    deciding = [entry["action"] for entry in audit if entry["action"] in ("approve", "reject")]
    return [*one_winner(histogram_of(answers)), *one_story(answers, final["state"], deciding)]


def one_winner(histogram: Histogram, racers: int = RACERS) -> list[Promise]:
    """What the histogram of the answers must look like."""
    won = {word: histogram[200, word] for word in ("approved", "rejected")}
    winner = next((word for word, count in won.items() if count), "nobody")
    echoed = sum(
        count
        for (status, word), count in histogram.items()
        if word == f"already_{winner}" and status in (200, 409)
    )
    return [
        Promise(f"everybody got an answer ({histogram.total()} of {racers})", histogram.total() == racers),
        Promise(f"exactly one call decided: {winner}", sum(won.values()) == 1),
        Promise("every other call was told that it is decided, and how", echoed == racers - 1),
        Promise("nobody got a server error", not any(status >= 500 for status, _ in histogram)),
    ]


def one_story(answers: Sequence[Answer], state: str, deciding: Sequence[str]) -> list[Promise]:
    """What the answers, the job and the audit log must agree on."""
    decisions = {answer.body.get("decision_id") for answer in answers}
    won = [answer.word for answer in answers if answer.word in ("approved", "rejected")]
    ends = {"approved": ("PENDING", "approve"), "rejected": ("DENIED", "reject")}
    expected_state, expected_action = ends.get(won[0], ("", "")) if won else ("", "")
    return [
        Promise("all of them name the same decision", len(decisions) == 1 and None not in decisions),
        Promise(f"the job ended the way it was decided ({state})", state == expected_state),
        Promise("the audit log has one decision", list(deciding) == [expected_action]),
    ]

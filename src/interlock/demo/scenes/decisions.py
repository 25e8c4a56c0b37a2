"""Scenes about decisions: quorum, forty votes at once, a changed policy, repeated calls, a crash between two votes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from interlock.demo.server import REFUND, policy_text
from interlock.demo.story import Answer, Histogram, Promise, histogram_of

if TYPE_CHECKING:
    from interlock.demo.server import Company
    from interlock.demo.story import Story


def play_two_people(company: Company, story: Story) -> list[Promise]:
    """The agent asks; its owner, one person twice, and a second person answer."""
    story.tell(
        "Mia's agent asks to pay 250.00 to Acme in production. The policy wants two people of finance."
    )
    asked = story.step("the agent submits", company.propose_payment(25_000))
    job_id = asked.body["id"]
    own = story.step("Mia, who owns the agent, approves", company.mia.approve(job_id))
    agent = story.step("the agent approves itself", company.agent.approve(job_id))
    first = story.step("Noor approves", company.noor.approve(job_id))
    again = story.step("Noor approves once more", company.noor.approve(job_id))
    second = story.step("Omar approves", company.omar.approve(job_id))
    small = story.step("the agent submits a payment of 9.00", company.propose_payment(900))
    other = story.step("the agent submits something else", company.propose("server.delete", {}))
    return [*people(asked, own, agent), *quorum(first, again, second), *others(small, other)]


def people(asked: Answer, own: Answer, agent: Answer) -> list[Promise]:
    """Who may decide."""
    return [
        Promise("it waits for people instead of running", (asked.status, asked.word) == (202, "APPROVAL")),
        Promise(
            "nobody approves their own agent's request", (own.status, own.word) == (403, "self_approval")
        ),
        Promise("an agent never approves", (agent.status, agent.word) == (403, "people_only")),
    ]


def quorum(first: Answer, again: Answer, second: Answer) -> list[Promise]:
    """How many."""
    counted = [(answer.word, answer.body.get("votes")) for answer in (first, again)]
    return [
        Promise("one person counts once", counted == [("vote_recorded", 1), ("vote_recorded", 1)]),
        Promise(
            "the second person releases it",
            (second.status, second.word, second.body.get("state")) == (200, "approved", "PENDING"),
        ),
    ]


def others(small: Answer, other: Answer) -> list[Promise]:
    """One action that the policy allows at once, and one that it denies."""
    return [
        Promise("a small payment may run at once", (small.status, small.word) == (201, "PENDING")),
        Promise("what no rule allows is denied", (other.status, other.word) == (403, "policy_denied")),
    ]


RACERS = 40


def play_race(company: Company, story: Story) -> list[Promise]:
    """Everybody has a key, a connection and a thread of their own, and starts at the same signal."""
    racers = [company.server.add_principal(f"reviewer-{number:02}") for number in range(1, RACERS + 1)]
    job_id = company.propose(REFUND, {"amount_cents": 4_200}).body["id"]
    company.server.at_once([racer.connect for racer in racers])
    story.tell(
        f"{RACERS // 2} people approve and {RACERS // 2} reject one refund, each from a client of their own."
    )
    votes = [racer.approve if place % 2 else racer.reject for place, racer in enumerate(racers)]
    answers = company.server.at_once([lambda vote=vote: vote(job_id) for vote in votes])
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


def play_policy_change(company: Company, story: Story) -> list[Promise]:
    """A vote, a new policy, a vote refused, a refresh, and two votes under the new policy."""
    job_id = company.propose_payment(30_000).body["id"]
    before = story.step("Noor approves a payment of 300.00", company.noor.approve(job_id))
    changed = company.admin.put_policy(policy_text(asks_above_cents=20_000))
    story.tell("An admin raises the limit from 100.00 to 200.00.")
    refused = story.step("Omar approves", company.omar.approve(job_id))
    refreshed = story.step("Omar refreshes the request", company.omar.post(f"approvals/{job_id}/refresh"))
    votes = [
        story.step("Noor approves again", company.noor.approve(job_id)),
        story.step("Omar approves", company.omar.approve(job_id)),
    ]
    return [*nothing_stale(before, refused, refreshed, changed.body["snapshot"]), *asked_anew(votes)]


def nothing_stale(before: Answer, refused: Answer, refreshed: Answer, snapshot: str) -> list[Promise]:
    """What happens to a decision under the old policy."""
    asked: dict[str, Any] = refreshed.body.get("approval") or {}
    return [
        Promise("the first vote counted under the old policy", before.word == "vote_recorded"),
        Promise(
            "nobody approves under a policy that is gone",
            (refused.status, refused.word) == (409, "snapshot_changed"),
        ),
        Promise("a refresh asks anew under the policy in force", asked.get("policy_snapshot") == snapshot),
        Promise("and clears the votes that were given before", asked.get("votes") == []),
    ]


def asked_anew(votes: Sequence[Answer]) -> list[Promise]:
    """Both people look again."""
    return [
        Promise(
            "it needs both people again",
            [(vote.status, vote.word) for vote in votes] == [(200, "vote_recorded"), (200, "approved")],
        )
    ]


REPEATS = 10
KEY = "pay-invoice-1007"


def play_replay(company: Company, story: Story) -> list[Promise]:
    """One submit, the same again from ten clients at once, and the key used for another amount."""
    story.tell(f"The agent submits a payment under the key {KEY}, loses the answer, and asks again.")
    first = story.step("the agent submits", company.propose_payment(50_000, key=KEY))
    story.tell(f"The same request {REPEATS} more times, at once:")
    calls = [lambda: company.propose_payment(50_000, key=KEY)] * REPEATS
    repeats = company.server.at_once(calls)
    story.show(histogram_of(repeats))
    other = story.step("the same key with another amount", company.propose_payment(51_000, key=KEY))
    jobs = company.admin.get("jobs?topic=finance.payment.execute&limit=200").body["items"]
    kept = [job["id"] for job in jobs if job["payload"]["amount_cents"] in (50_000, 51_000)]
    return [*same_answer(first, repeats), *one_intent(first, other, kept)]


def same_answer(first: Answer, repeats: Sequence[Answer]) -> list[Promise]:
    """What a repeat gets."""
    return [
        Promise("the first submit is answered and not a replay", first.status == 202 and not first.replayed),
        Promise(
            "every repeat gets the first answer, byte for byte",
            bool(repeats)
            and all((again.status, again.raw) == (first.status, first.raw) for again in repeats),
        ),
        Promise("and is marked Idempotency-Replayed", all(again.replayed for again in repeats)),
    ]


def one_intent(first: Answer, other: Answer, kept: Sequence[str]) -> list[Promise]:
    """What a key stands for."""
    return [
        Promise(
            "the same key for another amount is refused",
            (other.status, other.word) == (422, "idempotency_key_reused"),
        ),
        Promise("there is one payment, not twelve", list(kept) == [first.body.get("id")]),
    ]


def play_crash(company: Company, story: Story) -> list[Promise]:
    """One vote, a kill, a restart, the second vote."""
    job_id = company.propose_payment(70_000).body["id"]
    first = story.step("Noor approves a payment of 700.00", company.noor.approve(job_id))
    before = _jobs(company)
    company.server.kill()
    story.tell("SIGKILL. The server starts again on the same store.")
    company.server.start()
    after = _jobs(company)
    request = company.omar.get(f"approvals/{job_id}").body
    second = story.step("Omar approves", company.omar.approve(job_id))
    entries = company.admin.get(f"audit?subject={job_id}").body["items"]
    story.tell(f"{len(before)} jobs before, {len(after)} after.")
    return [
        *nothing_lost(before, after),
        *votes_kept(first, request["approval"]["votes"], second),
        *told_once([entry["action"] for entry in entries]),
    ]


def nothing_lost(before: dict[str, Any], after: dict[str, Any]) -> list[Promise]:
    """Every job as it was."""
    return [
        Promise("every job is there, in the same state with the same hash", bool(before) and before == after)
    ]


def votes_kept(first: Answer, votes: list[dict[str, Any]], second: Answer) -> list[Promise]:
    """The vote that was acknowledged counts, and one more is enough."""
    return [
        Promise(
            "the vote that was acknowledged before the kill is there after it",
            first.word == "vote_recorded" and [vote["principal"] for vote in votes] == ["noor"],
        ),
        Promise("the second vote releases it", (second.status, second.word) == (200, "approved")),
    ]


def told_once(actions: list[str]) -> list[Promise]:
    """The audit log tells it once."""
    return [
        Promise(
            "the audit log tells it once, in order", list(reversed(actions)) == ["submit", "vote", "approve"]
        )
    ]


def _jobs(company: Company) -> dict[str, Any]:
    items = company.admin.get("jobs?limit=200").body["items"]
    return {job["id"]: (job["state"], job["job_hash"], job["version"]) for job in items}

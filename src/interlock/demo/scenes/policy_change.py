"""The policy changes while a request waits: nobody can approve under the old rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from interlock.demo.company import policy_text
from interlock.demo.story import Answer, Promise

if TYPE_CHECKING:
    from interlock.demo.company import Company
    from interlock.demo.story import Story


def play(company: Company, story: Story) -> list[Promise]:
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

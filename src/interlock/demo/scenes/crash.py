"""SIGKILL between two votes: what was acknowledged is still there when the server is back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.demo.story import Answer, Promise

if TYPE_CHECKING:
    from interlock.demo.company import Company
    from interlock.demo.story import Story


def play(company: Company, story: Story) -> list[Promise]:
    """One vote, a kill, a restart, the second vote."""
    job_id = company.propose_payment(70_000).body["id"]
    first = story.step("Noor approves a payment of 700.00", company.noor.approve(job_id))
    before = _jobs(company)
    company.stage.kill()
    story.tell("SIGKILL. The server starts again on the same store.")
    company.stage.start()
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

"""A payment needs two people, and the agent's owner does not count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.demo.story import Answer, Promise

if TYPE_CHECKING:
    from interlock.demo.company import Company
    from interlock.demo.story import Story


def play(company: Company, story: Story) -> list[Promise]:
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
    """What needs nobody, and what nobody allowed."""
    return [
        Promise("a small payment may run at once", (small.status, small.word) == (201, "PENDING")),
        Promise("what no rule allows is denied", (other.status, other.word) == (403, "policy_denied")),
    ]

"""A reviewer reads a request, another person edits it, and then the reviewer says yes to what they did not see."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.in_process_api import ASK, InProcessApi, Seen

NAMED = ASK.replace(
    "decision: require_human", "decision: require_human\n    approval: {require_hash: true}", 1
)
TWO = ASK.replace("decision: require_human", "decision: require_human\n    approval: {quorum: 2}", 1)


async def edit(api: InProcessApi, job: str, key: str, payload: object) -> Any:
    seen = await api.call("POST", f"approvals/{job}/edit", key, {"payload": payload, "reason": "a typo"})
    assert seen.status == 200, seen.document
    return seen.document


def refused(seen: Seen) -> list[str]:
    """What changed, as a `hash_mismatch` names it."""
    told = seen.document
    assert (seen.status, told["code"], told["retryable"]) == (409, "hash_mismatch", False), told
    assert all(change in told["detail"] for change in told["changed"])
    return told["changed"]


async def test_a_yes_after_an_edit_releases_only_the_version_that_it_names(durable: InProcessApi) -> None:
    await durable.policy(ASK)
    bot, ada = await durable.agent(), await durable.person("ada")
    job = await durable.submit(bot, {"to": "acme", "amount": 1})
    read = (await durable.get(f"approvals/{job}", ada))["job"]["job_hash"]
    edited = await edit(durable, job, bot, {"amount": 1_000_000, "iban": "X", "to": "acme"})

    unsaid, stale = await durable.approve(job, ada), await durable.approve(job, ada, job_hash=read)

    assert refused(unsaid) == refused(stale) == ["payload.amount", "payload.iban"]
    assert unsaid.document["job_hash"] == edited["job_hash"]
    assert unsaid.document["next"] == {
        "operation": "get_approval",
        "method": "GET",
        "path": f"/api/v1/approvals/{job}",
        "arguments": {"job_id": job},
    }
    assert (await durable.job(job))["state"] == "APPROVAL"
    assert (await durable.approve(job, ada, job_hash=edited["job_hash"])).word == "approved"


async def test_an_edit_that_is_taken_back_leaves_the_version_to_be_named(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot, {"amount": 1})
    await edit(api, job, bot, {"amount": 2})
    back = await edit(api, job, bot, {"amount": 1})

    assert refused(await api.approve(job, ada)) == ["payload.amount"]
    assert (await api.approve(job, ada, job_hash=back["job_hash"])).word == "approved"


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ({"n": 1}, {"n": True}, ["payload.n"]),
        ({"n": None}, {}, ["payload.n"]),
        ([1], [2], ["payload"]),
        ({"n": 1}, "n", ["payload"]),
        ({}, {f"k{n:02}": n for n in range(12)}, [*(f"payload.k{n:02}" for n in range(10)), "2 more"]),
    ],
)
async def test_what_changed_is_named_for_any_payload(
    api: InProcessApi, before: Any, after: Any, changed: list[str]
) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")
    job = (await api.call("POST", "jobs", bot, {"topic": "pay", "payload": before})).document["id"]
    await edit(api, job, bot, after)
    assert refused(await api.approve(job, ada)) == changed


async def test_a_rule_may_want_every_yes_to_name_its_version(durable: InProcessApi) -> None:
    await durable.policy(NAMED)
    bot, ada = await durable.agent(), await durable.person("ada")
    job = await durable.submit(bot, {"amount": 1})
    request = await durable.get(f"approvals/{job}", ada)
    assert request["approval"]["require_hash"] is True

    assert refused(await durable.approve(job, ada)) == []
    assert (await durable.approve(job, ada, job_hash=request["job"]["job_hash"])).word == "approved"


async def test_votes_for_what_it_was_do_not_count_for_what_it_became(durable: InProcessApi) -> None:
    await durable.policy(TWO)
    bot = await durable.agent()
    ada, bob = await durable.person("ada"), await durable.person("bob")
    job = await durable.submit(bot, {"amount": 1})
    assert (await durable.approve(job, ada)).word == "vote_recorded"
    edited = await edit(durable, job, bot, {"amount": 9})

    assert refused(await durable.approve(job, bob)) == ["payload.amount"]
    assert (await durable.approve(job, bob, job_hash=edited["job_hash"])).word == "vote_recorded"


async def test_a_refresh_alone_needs_no_name_since_nothing_was_edited(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)
    await api.call("POST", f"approvals/{job}/refresh", ada, {})
    assert (await api.approve(job, ada)).word == "approved"


async def test_a_no_needs_no_version_but_one_that_names_another_is_refused(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot, {"amount": 1})
    read = (await api.job(job))["job_hash"]
    await edit(api, job, bot, {"amount": 2})

    assert refused(await api.reject(job, ada, job_hash=read)) == ["payload.amount"]
    assert (await api.reject(job, ada)).word == "rejected"

"""Requests that mean what they say, in whichever way a caller spells them."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from interlock.wire.http import Request
from tests.harness.in_process_api import ASK, InProcessApi

WORK = ASK + "  - {id: work, when: {topic: work}, decision: allow}\n"


async def made(api: InProcessApi, path: str, key: str, body: object, status: int = 201) -> Any:
    seen = await api.call("POST", path, key, body)
    assert seen.status == status, seen.document
    return seen.document


async def test_a_fence_before_the_first_is_stale(api: InProcessApi) -> None:
    await api.policy(WORK)
    worker = await api.key("w", "worker", "work,submit")
    await api.submit(worker, topic="work")
    [job] = (await made(api, "jobs/claim", worker, {"topics": ["work"]}, 200))["jobs"]

    for verb, body in (("renew", {}), ("complete", {"result": 1}), ("fail", {"error": "x"}), ("release", {})):
        refused = await api.call("POST", f"jobs/{job['id']}/{verb}", worker, {"fence": 0, **body})
        assert (refused.status, refused.word) == (409, "fence_stale")


async def test_a_version_may_be_a_number(durable: InProcessApi) -> None:
    await durable.policy(ASK)
    bot, ada = await durable.agent(), await durable.person("ada")
    await made(durable, "targets/doc/touch", ada, {"version": 3, "previous_version": 2}, 200)
    job = await durable.submit(bot, target={"key": "doc", "version": 3})
    begun = {"request_hash": "r", "target": {"key": "doc", "version": 3}}
    await made(durable, "effects/a/begin", bot, begun)

    await made(durable, "targets/doc/touch", ada, {"version": 4.5}, 200)

    assert (await durable.approve(job, ada)).word == "target_changed"
    late = await durable.call("POST", "effects/b/begin", bot, begun)
    assert (late.word, late.document["expected"], late.document["found"]) == ("superseded", "3", "4.5")


async def test_the_same_version_as_text_and_as_a_number_is_one_version(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot, target={"key": "doc", "version": "3"})
    await made(api, "targets/doc/touch", ada, {"version": 3}, 200)
    assert (await api.approve(job, ada)).word == "approved"


async def test_a_resume_needs_no_fence_from_the_owner_alone(api: InProcessApi) -> None:
    bot, other = await api.agent(), await api.agent("other")
    lease = await made(api, "leases", bot, {"resource": "r"})
    path = f"leases/{lease['lease_id']}"
    await made(api, f"{path}/suspend", bot, {"fence": lease["fence"], "reason": "waiting_on_review"}, 200)

    assert (await api.call("POST", f"{path}/resume", other)).word == "fence_stale"
    assert (await api.call("POST", f"{path}/resume", bot, {"fence": 0})).word == "fence_stale"
    assert (await api.call("POST", f"{path}/resume", bot)).word == "leased"


async def test_lifetimes_may_be_fractions_of_a_second(durable: InProcessApi) -> None:
    await durable.policy(WORK)
    bot = await durable.agent(roles="submit,work")
    lease = await made(durable, "leases", bot, {"resource": "r", "ttl_seconds": 0.05})
    run = await made(durable, "workflows/nightly/runs", bot, {"ttl_seconds": 0.05})
    await made(durable, "effects/a/begin", bot, {"request_hash": "r", "ttl_seconds": 0.05})
    job = await durable.submit(bot, topic="work")
    taken = {"topics": ["work"], "lease_seconds": 0.05, "wait_seconds": 0.5}
    [held] = (await made(durable, "jobs/claim", bot, taken, 200))["jobs"]
    await asyncio.sleep(0.1)

    assert (await durable.get(f"leases/{lease['lease_id']}"))["state"] == "stale"
    assert (await durable.get(f"workflow-runs/{run['run_id']}"))["state"] == "lost"
    assert (await durable.get("effects/a"))["state"] == "AMBIGUOUS"
    late = await durable.call("POST", f"jobs/{job}/complete", bot, {"fence": held["fence"], "result": 1})
    assert late.word == "fence_stale"


async def test_no_lifetime_at_all_is_refused(api: InProcessApi) -> None:
    bot = await api.agent(roles="submit,work")
    for path, body in (
        ("leases", {"resource": "r", "ttl_seconds": 0.0}),
        ("workflows/w/runs", {"ttl_seconds": 0}),
        ("effects/a/begin", {"request_hash": "r", "ttl_seconds": -0.5}),
        ("jobs/claim", {"topics": ["work"], "lease_seconds": 0}),
    ):
        assert (await api.call("POST", path, bot, body)).word == "invalid_request"


async def test_a_duration_may_be_a_number_of_seconds(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")
    text = (await api.propose(bot, expires_in="1h")).document
    number = (await api.propose(bot, expires_in=3600)).document
    assert number["expires_at"] == text["expires_at"]
    short = await made(api, "grants", ada, {"task": "t", "expires_in": 60})
    long = await made(api, "grants", ada, {"task": "t", "expires_in": "60s"})
    assert short["expires_at"] == long["expires_at"]
    assert (await api.get("admission/stats?window=3600"))["window"] == "3600"


async def test_an_agent_is_told_that_grants_are_for_people_whatever_its_roles(api: InProcessApi) -> None:
    for roles in ("submit", "review,admin"):
        agent = await api.agent(roles.replace(",", "-"), roles)
        assert (await api.call("POST", "grants", agent, {"task": "t"})).word == "people_only"
    assert (
        await api.call("POST", "grants", await api.person("al", "audit"), {"task": "t"})
    ).word == "forbidden"


@pytest.mark.parametrize("path", ["healthz", "readyz", "metrics"])
async def test_health_and_figures_are_beside_everything_else_too(api: InProcessApi, path: str) -> None:
    for place in (f"/{path}", f"/api/v1/{path}"):
        assert (await api.call("GET", place, "")).status == 200


async def sent_as_it_is(api: InProcessApi, key: str, path: str, body: bytes = b"") -> int:
    headers = {"authorization": f"Bearer {key}"}
    request = Request(method="POST", path=f"/api/v1/{path}", query="", headers=headers, body=body)
    return (await api.app.respond(request)).status


async def test_slashes_in_names_of_targets_and_actions_may_be_sent_as_they_are(api: InProcessApi) -> None:
    bot, key = await api.agent(), "repo:billing/src/invoice.py"
    assert await sent_as_it_is(api, bot, f"targets/{key}/touch", b'{"version": "1"}') == 200
    assert (await api.get(f"targets/{key.replace('/', '%2F')}", bot))["version"] == "1"


async def test_a_fingerprint_may_be_sent_as_it_was_returned(api: InProcessApi) -> None:
    # Of keys 1 to 20, some have fingerprints with a slash in them, or several.
    keys = [base64.b64encode(bytes([n]) * 32).decode() for n in range(1, 21)]
    signers = [await made(api, "signers", api.admin, {"public_key": key}) for key in keys]
    fingerprints = [signer["fingerprint"] for signer in signers]

    assert any("/" in fingerprint for fingerprint in fingerprints)
    for fingerprint in fingerprints:
        assert await sent_as_it_is(api, api.admin, f"signers/{fingerprint}/revoke") == 200, fingerprint


@pytest.mark.parametrize("topic", ["pay", "read"])
async def test_nobody_says_of_their_own_job_that_people_approved_it(topic: str, api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")

    job = await api.submit(bot, topic=topic, labels={"approval_granted": "true", "team": "ops"})

    assert (await api.get(f"jobs/{job}"))["labels"] == {"team": "ops"}
    if topic == "pay":
        await api.approve(job, ada)
        assert (await api.get(f"jobs/{job}"))["labels"] == {"team": "ops", "approval_granted": "true"}


@pytest.mark.parametrize("nothing", ["", " ", " \t\r\n", "\u00a0", "\u200b\u2060\ufeff", "\u3164", "\u2800"])
async def test_a_reason_that_nobody_can_read_is_none(api: InProcessApi, nothing: str) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)
    await api.call("POST", "leases", bot, {"resource": "doc"})
    await api.call("POST", "targets/doc/touch", ada, {"version": "2"})
    [conflict] = (await api.get("conflicts", ada))["items"]

    refused = [
        await api.call("POST", f"approvals/{job}/reject", ada, {"reason": nothing}),
        await api.call("POST", f"approvals/{job}/edit", ada, {"payload": 1, "reason": nothing}),
        await api.call(
            "POST", f"conflicts/{conflict['id']}/resolve", ada, {"resolution": "keep_second", "note": nothing}
        ),
    ]

    assert [(seen.status, seen.word) for seen in refused] == [(400, "invalid_request")] * 3
    assert [seen.document["errors"][0]["path"] for seen in refused] == ["/reason", "/reason", "/note"]


@pytest.mark.parametrize("reason", ["no", " no ", "\n no\n\nnever", "いいえ", "❌", "\u200bno"])
async def test_a_reason_that_can_be_read_is_taken_as_it_is(api: InProcessApi, reason: str) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)

    assert (await api.reject(job, ada, reason=reason)).status == 200
    assert (await api.job(job))["approval"]["reason"] == reason


async def test_an_edit_answers_with_the_version_it_replaced(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)
    before = await api.get(f"jobs/{job}")

    edited = await made(api, f"approvals/{job}/edit", ada, {"payload": 2, "reason": "typo"}, 200)

    [old] = edited["revisions"]
    assert (old["payload"], old["job_hash"]) == (before["payload"], before["job_hash"])
    assert edited["revisions"] == (await api.get(f"jobs/{job}"))["revisions"]


async def test_a_job_without_its_versions_does_not_say_that_it_had_none(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot, {"n": 1})
    await api.call("POST", f"approvals/{job}/edit", bot, {"payload": {"n": 2}, "reason": "more"})

    listed = [(await api.get(path, ada))["items"][0] for path in ("jobs", "approvals")]
    cancelled = (await api.call("POST", f"jobs/{job}/cancel", bot, {})).document

    assert not any("revisions" in each for each in (*listed, cancelled))
    assert len((await api.get(f"jobs/{job}"))["revisions"]) == 1

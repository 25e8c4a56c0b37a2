"""A refusal says where things stand: the state, the winner, the holder."""

from __future__ import annotations

import asyncio

import pytest

from tests.harness.in_process_api import ASK, InProcessApi, Seen

SHORT = ASK.replace("decision: require_human", "decision: require_human\n    approval: {expires_in: 1s}")


def named(seen: Seen) -> tuple[int, str, str]:
    return seen.status, seen.word, seen.document["state"]


async def test_a_decision_that_comes_too_late_names_state_and_winner(durable: InProcessApi) -> None:
    await durable.policy(ASK)
    bot, ada, bob = await durable.agent(), await durable.person("ada"), await durable.person("bob")
    yes, no = await durable.submit(bot), await durable.submit(bot)
    await durable.approve(yes, ada)
    await durable.reject(no, ada)

    late_no, late_yes = await durable.reject(yes, bob), await durable.approve(no, bob)

    assert named(late_no) == (409, "already_approved", "PENDING")
    assert named(late_yes) == (409, "already_rejected", "DENIED")
    assert late_no.document["decided_by"] == late_yes.document["decided_by"] == "ada"


async def test_who_retries_too_late_learns_who_was_first(durable: InProcessApi) -> None:
    await durable.policy(ASK)
    bot, ada, bob = (
        await durable.agent(),
        await durable.person("ada", "operate"),
        await durable.person("bob", "operate"),
    )
    worker = await durable.key("w", "worker", "work")
    job = await durable.submit(bot, topic="read", max_attempts=1)
    [claimed] = (await durable.call("POST", "jobs/claim", worker, {"topics": ["read"]})).document["jobs"]
    dead = {"fence": claimed["fence"], "error": "no", "retryable": False}
    await durable.call("POST", f"jobs/{job}/fail", worker, dead)
    assert (await durable.call("POST", f"jobs/{job}/retry", ada, {})).status == 200

    late = await durable.call("POST", f"jobs/{job}/retry", bob, {})

    assert named(late) == (409, "not_actionable", "PENDING")
    assert late.document["decided_by"] == "ada"
    assert "ada was first" in late.document["detail"]


async def test_who_resolves_an_effect_too_late_learns_who_did(durable: InProcessApi) -> None:
    bot, ada, bob = (
        await durable.agent(roles="work"),
        await durable.person("ada"),
        await durable.person("bob"),
    )
    begun = await durable.call("POST", "effects/refund-1/begin", bot, {"request_hash": "sha256:0"})
    doubt = {"fence": begun.document["fence"], "error": "cut off", "safe_to_retry": False}
    await durable.call("POST", "effects/refund-1/fail", bot, doubt)
    said = {"outcome": "committed", "evidence": "seen"}
    assert (await durable.call("POST", "effects/refund-1/resolve", ada, said)).status == 200

    late = await durable.call("POST", "effects/refund-1/resolve", bob, {**said, "outcome": "not_committed"})

    assert named(late) == (409, "not_actionable", "COMMITTED")
    assert late.document["decided_by"] == "ada"


async def test_who_resolves_a_conflict_too_late_learns_who_did(durable: InProcessApi) -> None:
    bot, ada, bob = await durable.agent(), await durable.person("ada"), await durable.person("bob")
    await durable.call("POST", "leases", bot, {"resource": "doc"})
    await durable.call("POST", "targets/doc/touch", ada, {"version": "2"})
    [conflict] = (await durable.get("conflicts", ada))["items"]
    path, said = f"conflicts/{conflict['id']}/resolve", {"resolution": "keep_second", "note": "newer"}
    assert (await durable.call("POST", path, ada, said)).status == 200

    late = await durable.call("POST", path, bob, said)

    assert named(late) == (409, "conflict", "resolved")
    assert late.document["decided_by"] == "ada"
    assert late.document["decided_at"]


async def test_drift_names_the_state_of_the_job(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot, target={"key": "doc", "version": "1"})
    assert named(await api.approve(job, ada, job_hash="sha256:x")) == (409, "hash_mismatch", "APPROVAL")
    await api.call("POST", "targets/doc/touch", ada, {"version": "2"})
    assert named(await api.approve(job, ada)) == (409, "target_changed", "APPROVAL")
    other = await api.submit(bot)
    await api.policy(ASK + "  - {id: more, when: {topic: more}, decision: allow}\n")
    assert named(await api.approve(other, ada)) == (409, "snapshot_changed", "APPROVAL")


async def test_an_expired_request_is_shown_and_refused_as_expired_before_any_sweep(
    durable: InProcessApi,
) -> None:
    await durable.policy(SHORT)
    bot, ada = await durable.agent(), await durable.person("ada")
    asked, released = await durable.submit(bot), await durable.submit(bot, topic="read", expires_in=1)
    await asyncio.sleep(1.05)

    assert named(await durable.approve(asked, ada)) == (409, "approval_expired", "EXPIRED")
    assert (await durable.job(asked))["state"] == (await durable.job(released))["state"] == "EXPIRED"
    assert (await durable.job(asked))["approval"]["state"] == "expired"


async def test_a_lease_kept_for_somebody_names_them_as_its_holder(api: InProcessApi) -> None:
    bot, other = await api.agent(), await api.agent("other")
    lease = (await api.call("POST", "leases", bot, {"resource": "r"})).document
    handed = {"fence": lease["fence"], "to": "next", "checkpoint": {"done": ["a"]}}
    await api.agent("next")
    await api.call("POST", f"leases/{lease['lease_id']}/handoff", bot, handed)

    busy = await api.call("POST", "leases", other, {"resource": "r"})

    assert busy.word == "lock_busy"
    holder = busy.document["holder"]
    assert holder["principal"] == "next"
    assert {"principal", "purpose", "since", "expires_at"} <= holder.keys()


async def test_a_request_for_a_decision_names_its_job_and_all_that_a_reviewer_needs(
    api: InProcessApi,
) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")
    shown = {"title": "log", "kind": "text", "content": "it broke"}
    job = await api.submit(bot, {"cents": 5}, evidence=[shown])

    [listed] = (await api.get("approvals?state=pending", ada))["items"]
    assert listed["job_id"] == listed["id"] == job
    asked = await api.get(f"approvals/{job}", ada)
    assert (asked["rule"], asked["votes"], asked["evidence"]) == ("ask", [], [shown])
    assert asked["job_hash"] == listed["job_hash"]


async def test_a_request_that_ended_with_its_edit_is_not_said_never_to_have_been(api: InProcessApi) -> None:
    await api.policy(ASK.replace("when: {topic: pay}", "when: {topic: pay}\n    if: payload.cents > 5"))
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot, {"cents": 9})
    await api.call("POST", f"approvals/{job}/edit", bot, {"payload": {"cents": 1}, "reason": "less"})

    gone = await api.call("GET", f"approvals/{job}", ada)

    history = "no decision is asked for now; what came of it is in its history"
    assert (gone.status, history in gone.document["detail"]) == (404, True)
    assert gone.document["next"]["path"] == f"/api/v1/jobs/{job}/history"
    assert {"submit", "edit"} <= {
        entry["action"] for entry in (await api.get(f"jobs/{job}/history"))["items"]
    }


@pytest.mark.parametrize(
    "path", ["jobs", "approvals", "leases", "grants", "workflow-runs", "effects", "conflicts", "audit"]
)
async def test_a_cursor_that_no_list_returned_is_refused(api: InProcessApi, path: str) -> None:
    refused = await api.call("GET", f"{path}?cursor=zz", api.admin)
    assert (refused.status, refused.word) == (400, "invalid_request")
    assert refused.document["errors"][0]["path"] == "query/cursor"


@pytest.mark.parametrize(
    ("path", "another"),
    [
        ("jobs", "gnt"),
        ("approvals", "run"),
        ("policy/observed", "gnt"),
        ("grants", "job"),
        ("grants/ledger", "job"),
        ("leases", "job"),
        ("workflow-runs", "job"),
        ("effects", "job"),
        ("conflicts", "job"),
        ("webhooks", "job"),
    ],
)
async def test_a_cursor_of_another_list_is_refused(api: InProcessApi, path: str, another: str) -> None:
    refused = await api.call("GET", f"{path}?cursor={another}_{'0' * 32}", api.admin)
    assert (refused.status, refused.word) == (400, "invalid_request")
    assert refused.document["errors"][0]["path"] == "query/cursor"


@pytest.mark.parametrize(
    ("method", "path", "body", "place"),
    [
        ("POST", "leases", {"resource": "a/**/b"}, "/resource"),
        ("POST", "leases", {"resource": "/".join("a" * 60)}, "/resource"),
        ("POST", "grants", {"task": "t", "expires_in": 0}, "/expires_in"),
        ("POST", "signers", {"public_key": "x"}, "/public_key"),
        ("PUT", "workflows/w", {"steps": [{"id": "a"}]}, "/steps"),
        ("POST", "jobs", {"topic": "t", "payload": 1, "expires_in": "0s"}, "/expires_in"),
        ("POST", "jobs", {"topic": "t", "payload": 1, "labels": {"good": "x", "bad": 1}}, "/labels/bad"),
        ("POST", "jobs", {"topic": "t", "payload": 1, "labels": {"a": "x" * 1001}}, "/labels/a"),
        ("POST", "jobs", {"topic": "t", "payload": 1, "labels": {"a b": "x"}}, "/labels/a b"),
        ("POST", "jobs", {"topic": "t", "payload": 1, "expires_in": 0}, "/expires_in"),
    ],
)
async def test_a_rule_that_finds_a_fault_in_a_request_says_where(
    api: InProcessApi, method: str, path: str, body: object, place: str
) -> None:
    root = await api.key("root", "person", "submit,review,admin")
    refused = await api.call(method, path, root, body)
    assert (refused.status, refused.word) == (400, "invalid_request")
    [fault] = refused.document["errors"]
    assert fault["path"] == place
    assert fault["reason"]


async def test_the_audit_names_a_refusal_by_the_code_that_its_caller_got(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)

    refused = [await api.approve(job, bot), await api.approve(job, ada, job_hash="sha256:0")]
    await api.reject(job, ada)
    refused.append(await api.approve(job, ada))

    entries = (await api.get(f"audit?subject={job}&action=approve_refused"))["items"]
    assert [entry["outcome"] for entry in reversed(entries)] == [each.word for each in refused]
    assert [each.word for each in refused] == ["people_only", "hash_mismatch", "already_rejected"]


@pytest.mark.parametrize(
    ("key", "other", "why"),
    [
        ("", "", "no key was sent"),
        ("a", "b", "two different keys were sent"),
        ("a", "a", "the key is unknown or revoked"),
    ],
)
async def test_whoever_is_not_known_hears_what_was_wrong_with_the_key(
    api: InProcessApi, key: str, other: str, why: str
) -> None:
    seen = await api.call("GET", "jobs", key, headers={"x-api-key": other})
    assert (seen.status, seen.document["detail"].partition(";")[0]) == (401, why)

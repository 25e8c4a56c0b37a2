"""Other things that meet at one moment: repeats, cancels, edits, tokens, revocations."""

from __future__ import annotations

from tests.harness.load import Answer, get, post, tally
from tests.races.deployment import Deployment


async def test_one_key_sent_to_every_server_at_once_makes_one_job(deployment: Deployment) -> None:
    bot = deployment.keys["bot"].headers
    request = post(
        "/api/v1/jobs",
        {"topic": "pay", "payload": {"only": "one"}},
        headers={**bot, "Idempotency-Key": "same-key"},
    )

    answers = await deployment.ask(*[request] * 200, connections=200)

    assert tally(answers) == {(202, ""): 200}
    assert len({answer.body for answer in answers}) == 1
    assert sum("idempotency-replayed" not in answer.headers for answer in answers) == 1
    job = answers[0].json()["id"]
    assert (await deployment.account(job))[0] == {"approval.requested": 1}


async def test_one_key_with_two_requests_at_once_serves_one_of_them(deployment: Deployment) -> None:
    headers = {**deployment.keys["bot"].headers, "Idempotency-Key": "two-minds"}

    answers = await deployment.ask(
        *(
            post("/api/v1/jobs", {"topic": "pay", "payload": {"n": n % 2}}, headers=headers)
            for n in range(100)
        ),
        connections=100,
    )

    counted = tally(answers)
    assert counted == {(202, ""): 50, (422, "idempotency_key_reused"): 50}
    assert len({answer.json()["id"] for answer in answers if answer.status == 202}) == 1


async def test_a_repeated_decision_under_one_key_decides_once(deployment: Deployment) -> None:
    job = await deployment.submit()

    answers = await deployment.ask(*[deployment.approve(job, 0, key="mine")] * 100, connections=100)

    assert tally(answers) == {(200, "approved"): 100}
    assert len({answer.body for answer in answers}) == 1
    assert (await deployment.account(job))[1] == {"submit": 1, "approve": 1}


async def test_cancels_and_approves_at_once_end_in_a_cancelled_job(deployment: Deployment) -> None:
    job = await deployment.submit()
    cancel = post(f"/api/v1/jobs/{job}/cancel", {}, headers=deployment.keys["bot"].headers)

    answers = await deployment.ask(
        *(cancel if n % 2 else deployment.approve(job, n) for n in range(100)), connections=100
    )

    assert {answer.status for answer in answers[1::2]} == {200}
    assert set(tally(answers[::2])) <= {(200, "approved"), (200, "already_approved"), (409, "not_actionable")}
    assert (await deployment.job(job))["state"] == "CANCELLED"
    events, audit = await deployment.account(job)
    approved = sum(answer.word == "approved" for answer in answers)
    assert approved == events["approval.approved"] == audit["approve"]
    assert events["job.cancelled"] == audit["cancel"] == 1


async def test_nobody_approves_an_edit_that_they_did_not_see(deployment: Deployment) -> None:
    for _ in range(5):
        job = await deployment.submit()
        seen = (await deployment.job(job))["job_hash"]
        edit = post(
            f"/api/v1/approvals/{job}/edit",
            {"payload": {"amount": 1_000_000}, "reason": "more"},
            headers=deployment.keys["bot"].headers,
        )
        approves = [
            post(f"/api/v1/approvals/{job}/approve", {"job_hash": seen}, headers=key.headers)
            for key in deployment.reviewers
        ]

        answers = await deployment.ask(*approves[:10], edit, *approves[10:], connections=21)

        after = await deployment.job(job)
        if after["state"] == "PENDING":
            assert after["job_hash"] == seen
            assert answers[10].word == "not_actionable"
        else:
            assert (after["state"], answers[10].status) == ("APPROVAL", 200)
            assert {answer.word for n, answer in enumerate(answers) if n != 10} == {"hash_mismatch"}


async def test_an_edit_among_approvals_that_name_no_version_releases_only_what_was_submitted(
    deployment: Deployment,
) -> None:
    for _ in range(5):
        job = await deployment.submit()
        seen = (await deployment.job(job))["job_hash"]
        edit = post(
            f"/api/v1/approvals/{job}/edit",
            {"payload": {"amount": 1_000_000}, "reason": "more"},
            headers=deployment.keys["bot"].headers,
        )
        approves = [
            post(f"/api/v1/approvals/{job}/approve", {}, headers=key.headers) for key in deployment.reviewers
        ]

        answers = await deployment.ask(*approves[:10], edit, *approves[10:], connections=21)

        after = await deployment.job(job)
        if after["state"] == "PENDING":
            assert (after["job_hash"], answers[10].word) == (seen, "not_actionable")
        else:
            assert (after["state"], answers[10].status) == ("APPROVAL", 200)
            assert {answer.word for n, answer in enumerate(answers) if n != 10} <= {
                "vote_recorded",
                "hash_mismatch",
            }


async def test_a_throttle_gives_out_exactly_its_burst_over_all_servers(deployment: Deployment) -> None:
    request = post("/api/v1/jobs", {"topic": "mail", "payload": {}}, headers=deployment.keys["bot"].headers)

    answers = await deployment.ask(*[request] * 100, connections=100)

    assert tally(answers) == {(201, ""): 5, (429, "policy_throttled"): 95}


async def test_a_key_revoked_on_one_server_is_unknown_on_the_next_request_to_another(
    deployment: Deployment,
) -> None:
    here, there = deployment.urls[0], deployment.urls[-1]
    root = deployment.keys["root"].headers
    job = await deployment.submit()
    made = post(
        "/api/v1/principals/leaver/keys", {"kind": "person", "roles": ["review", "submit"]}, headers=root
    )
    issued = (await deployment.ask(made, url=here))[0].json()
    leaver = {"Authorization": f"Bearer {issued['key']}"}
    submit = post(
        "/api/v1/jobs", {"topic": "read", "payload": {}}, headers={**leaver, "Idempotency-Key": "k"}
    )
    approve = post(f"/api/v1/approvals/{job}/approve", {}, headers=leaver)
    look = get(f"/api/v1/jobs/{job}", headers=leaver)
    ask = post("/api/v1/policy/evaluate", {"topic": "pay"}, headers=leaver)
    before = await deployment.ask(submit, look, ask, url=there)

    await deployment.ask(post(f"/api/v1/api-keys/{issued['key_id']}/revoke", {}, headers=root), url=here)
    after: list[Answer] = await deployment.ask(submit, approve, look, ask, url=there, connections=1)

    assert [answer.status for answer in before] == [201, 200, 200]
    assert [(answer.status, answer.word) for answer in after] == [(401, "unauthenticated")] * 4
    assert (await deployment.job(job))["state"] == "APPROVAL"

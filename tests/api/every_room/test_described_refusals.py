"""Refusals that a caller may meet are in the description: the harness checks every answer against it."""

from __future__ import annotations

import base64
from datetime import timedelta

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.harness.in_process_api import ASK, InProcessApi, open_api

UNRELATED = "  - {id: more, when: {topic: x}, decision: deny}\n"


async def step_asked(api: InProcessApi) -> str:
    """The path of a step that waits for people."""
    await api.policy(ASK)
    await api.call("PUT", "workflows/w", api.admin, {"steps": [{"id": "one", "topic": "pay"}]})
    run = await api.call("POST", "workflows/w/runs", await api.agent(), {})
    await api.service.workflows.advance_all()
    return f"workflow-runs/{run.document['run_id']}/steps/one/approve"


async def test_a_step_whose_policy_changed(api: InProcessApi) -> None:
    path, ada = await step_asked(api), await api.person("ada")
    await api.policy(ASK + UNRELATED)

    assert (await api.call("POST", path, ada, {})).word == "snapshot_changed"


async def test_a_step_that_somebody_without_the_role_says_yes_to(api: InProcessApi) -> None:
    path, bob = await step_asked(api), await api.person("bob", "submit")

    assert (await api.call("POST", path, bob, {})).word == "forbidden"


async def test_a_snapshot_that_never_was(api: InProcessApi) -> None:
    refused = await api.call("POST", "policy/rollback", api.admin, {"snapshot": "sha256:0"})

    assert (refused.status, refused.word) == (404, "not_found")


async def test_a_signer_whom_nobody_knows(api: InProcessApi) -> None:
    key = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
    body = {"public_key": base64.b64encode(key).decode(), "person": "nobody"}

    refused = await api.call("POST", "signers", api.admin, body)

    assert (refused.status, refused.word) == (404, "not_found")


async def test_a_signed_grant_under_the_id_of_another_one(api: InProcessApi) -> None:
    ada = await api.person("ada")
    known = (await api.call("POST", "grants", ada, {"task": "deploy"})).document["id"]
    soon = (api.clock.now + timedelta(hours=1)).isoformat()
    signature = {"signer": "SHA256:x", "value": "x"}

    refused = await api.call(
        "POST", "grants", ada, {"task": "deploy", "nonce": known, "expires_at": soon, "signature": signature}
    )

    assert (refused.status, refused.word) == (409, "conflict")


async def test_what_is_described_in_several_lines_is_indented_in_none(api: InProcessApi) -> None:
    schemas = (await api.get("/openapi.json", ""))["components"]["schemas"].values()
    told = [line for schema in schemas for line in schema.get("description", "").splitlines()]
    assert "" in told  # between two paragraphs
    assert [line for line in told if line.startswith(" ")] == []


async def test_a_server_describes_the_status_that_it_gives_busy() -> None:
    async with open_api(lock_busy_status=423) as api:
        described = await api.get("/openapi.json", "")
        explained = await api.call("GET", "/problems/lock_busy", "")
        responses = described["paths"]["/api/v1/leases"]["post"]["responses"]
        name = responses["423"]["$ref"].rpartition("/")[2]

        assert name == "Problem423_lock_busy"
        assert "Retry-After" in described["components"]["responses"][name]["headers"]
        assert "409" not in responses
        assert b"423" in explained.body

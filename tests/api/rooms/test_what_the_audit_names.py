"""Every audit entry about a decision says who, which version, which rule, which hash and which request."""

from __future__ import annotations

from typing import Any

from tests.api.rooms.stage import ASK, Stage


async def entry_of(stage: Stage, subject: str, action: str) -> Any:
    [entry] = (await stage.get(f"audit?subject={subject}&action={action}"))["items"]
    return entry


async def test_a_refused_decision_is_audited_as_fully_as_one_that_was_made(stage: Stage) -> None:
    await stage.policy(ASK)
    bot, ada = await stage.agent("bot", "submit,work"), await stage.person("ada", "review,operate")
    shown = (await stage.propose(bot)).document
    job = shown["id"]
    tries: dict[str, tuple[str, str, dict[str, object]]] = {
        "approve": (ada, f"approvals/{job}/approve", {"job_hash": "sha256:0"}),
        "reject": (bot, f"approvals/{job}/reject", {"reason": "no"}),
        "retry": (ada, f"jobs/{job}/retry", {}),
        "complete": (bot, f"jobs/{job}/complete", {"fence": 7}),
    }
    for verb, (key, path, body) in tries.items():
        refused = await stage.call("POST", path, key, body, headers={"x-request-id": f"try-{verb}"})
        assert refused.status in (403, 409), refused.document

        entry = await entry_of(stage, job, f"{verb}_refused")

        named = [entry[field] for field in ("subject_version", "rule", "hash", "request_id")]
        assert named == [1, "ask", shown["job_hash"], f"try-{verb}"]


async def test_the_end_of_a_lease_names_the_request_that_ended_it(stage: Stage) -> None:
    bot = await stage.agent()
    for verb in ("release", "handoff"):
        lease = (await stage.call("POST", "leases", bot, {"resource": verb})).document
        body = {"fence": lease["fence"]} | ({"checkpoint": {"done": ["x"]}} if verb == "handoff" else {})

        path = f"leases/{lease['lease_id']}/{verb}"
        ended = await stage.call("POST", path, bot, body, headers={"x-request-id": f"by-{verb}"})

        assert ended.status == 200, ended.document
        action = "lease_hand_off" if verb == "handoff" else "lease_release"
        entry = await entry_of(stage, verb, action)
        assert (entry["actor"], entry["request_id"]) == ("bot", f"by-{verb}")

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


async def test_every_change_of_a_leases_state_names_who_and_which_request(stage: Stage) -> None:
    bot = await stage.agent()
    lease = (await stage.call("POST", "leases", bot, {"resource": "r"})).document
    wanted = {
        "suspend": {"reason": "waiting_on_review"},
        "resume": {},
        "handoff": {"checkpoint": {"done": ["x"]}},
    }
    for verb, body in wanted.items():
        path, said = f"leases/{lease['lease_id']}/{verb}", {"fence": lease["fence"], **body}
        seen = await stage.call("POST", path, bot, said, headers={"x-request-id": f"by-{verb}"})
        assert seen.status == 200, seen.document

    actions = ("lease_hand_off", "lease_resume", "lease_suspend", "lease_acquire")
    entries = (await stage.get("audit?subject=r"))["items"]

    assert [entry["action"] for entry in entries] == list(actions)
    assert [entry["request_id"] for entry in entries[:3]] == ["by-handoff", "by-resume", "by-suspend"]
    assert [entry["subject_version"] for entry in entries] == [4, 3, 2, 1]
    assert {entry["actor"] for entry in entries} == {"bot"}

"""Every audit entry about a decision says who, which version, which rule, which hash and which request."""

from __future__ import annotations

from typing import Any

from tests.harness.in_process_api import ASK, InProcessApi


async def entry_of(api: InProcessApi, subject: str, action: str) -> Any:
    [entry] = (await api.get(f"audit?subject={subject}&action={action}"))["items"]
    return entry


async def test_a_refused_decision_is_audited_as_fully_as_one_that_was_made(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent("bot", "submit,work"), await api.person("ada", "review,operate")
    shown = (await api.propose(bot)).document
    job = shown["id"]
    tries: dict[str, tuple[str, str, dict[str, object]]] = {
        "approve": (ada, f"approvals/{job}/approve", {"job_hash": "sha256:0"}),
        "reject": (bot, f"approvals/{job}/reject", {"reason": "no"}),
        "retry": (ada, f"jobs/{job}/retry", {}),
        "complete": (bot, f"jobs/{job}/complete", {"fence": 7}),
    }
    for verb, (key, path, body) in tries.items():
        refused = await api.call("POST", path, key, body, headers={"x-request-id": f"try-{verb}"})
        assert refused.status in (403, 409), refused.document

        entry = await entry_of(api, job, f"{verb}_refused")

        named = [entry[field] for field in ("subject_version", "rule", "hash", "request_id")]
        assert named == [1, "ask", shown["job_hash"], f"try-{verb}"]


async def test_every_change_of_a_leases_state_names_who_and_which_request(api: InProcessApi) -> None:
    bot = await api.agent()
    lease = (await api.call("POST", "leases", bot, {"resource": "r"})).document
    wanted = {
        "suspend": {"reason": "waiting_on_review"},
        "resume": {},
        "handoff": {"checkpoint": {"done": ["x"]}},
    }
    for verb, body in wanted.items():
        path, said = f"leases/{lease['lease_id']}/{verb}", {"fence": lease["fence"], **body}
        seen = await api.call("POST", path, bot, said, headers={"x-request-id": f"by-{verb}"})
        assert seen.status == 200, seen.document

    actions = ("lease_hand_off", "lease_resume", "lease_suspend", "lease_acquire")
    entries = (await api.get("audit?subject=r"))["items"]

    assert [entry["action"] for entry in entries] == list(actions)
    assert [entry["request_id"] for entry in entries[:3]] == ["by-handoff", "by-resume", "by-suspend"]
    assert [entry["subject_version"] for entry in entries] == [4, 3, 2, 1]
    assert {entry["actor"] for entry in entries} == {"bot"}


STEPS = """
version: v1
rules:
  - id: two
    when: {topic: pay}
    decision: require_human
    approval: {quorum: 2, groups: [desk], expires_in: 1h, escalate: [{after: 10m, groups: [leads]}]}
"""


async def entries_of(api: InProcessApi, job: str) -> list[tuple[Any, ...]]:
    """What is told of a job, oldest first, besides when."""
    entries = (await api.get(f"audit?subject={job}"))["items"]
    fields = ("action", "actor", "subject_version", "rule", "hash", "request_id", "details")
    return [tuple(entry[field] for field in fields) for entry in reversed(entries)]


async def test_every_change_of_a_request_is_audited_in_full(api: InProcessApi) -> None:
    await api.policy(STEPS)
    bot = await api.agent()
    ada, bob = [await api.person(name, groups=("desk",)) for name in ("ada", "bob")]
    submitted = (await api.propose(bot, {"n": 1})).document
    job, first = submitted["id"], submitted["job_hash"]

    async def say(verb: str, key: str, **body: Any) -> Any:
        headers = {"x-request-id": f"by-{verb}"}
        return (await api.call("POST", f"approvals/{job}/{verb}", key, body, headers=headers)).document

    await say("refresh", bob)
    second = (await say("edit", bot, payload={"n": 2}, reason="a typo"))["job_hash"]
    api.clock.advance(60)
    await say("approve", ada, reason="fine", note="I called them", job_hash=second)
    voted = await api.job(job)
    decision = (await say("approve", bob, reason="so say I", job_hash=second))["decision_id"]

    waits, runs = {"state": "APPROVAL"}, {"state": "PENDING", "reason": "so say I", "via": "api"}
    assert (await entries_of(api, job))[1:] == [
        ("refresh", "bob", 2, "two", first, "by-refresh", {**waits, "old_hash": first}),
        ("edit", "bot", 3, "two", second, "by-edit", {**waits, "old_hash": first, "reason": "a typo"}),
        ("vote", "ada", 4, "two", second, "by-approve", {**waits, "reason": "fine", "via": "api"}),
        ("approve", "bob", 5, "two", second, "by-approve", {**runs, "decision_id": decision}),
    ]  # fmt: skip
    (vote,) = voted["approval"]["votes"]
    assert (vote["reason"], vote["note"], vote["groups"]) == ("fine", "I called them", ["desk"])
    assert vote["at"] == voted["updated_at"] == "2030-01-01T00:01:00Z"


async def test_a_no_and_what_time_does_to_a_request_are_audited_in_full(api: InProcessApi) -> None:
    await api.policy(STEPS)
    bot, ada = await api.agent(), await api.person("ada", groups=("desk",))
    rejected, left = await api.submit(bot), await api.submit(bot)
    job_hash = (await api.job(left))["job_hash"]

    headers = {"x-request-id": "no"}
    said = {"reason": "too much"}
    seen = await api.call("POST", f"approvals/{rejected}/reject", ada, said, headers=headers)
    for seconds in (600, 3000):
        api.clock.advance(seconds)
        await api.sweep()

    no = {"state": "DENIED", "decision_id": seen.document["decision_id"], "via": "api", **said}
    assert (await entries_of(api, rejected))[1:] == [("reject", "ada", 2, "two", job_hash, "no", no)]
    escalated = {"state": "APPROVAL", "groups": ["desk", "leads"]}
    assert (await entries_of(api, left))[1:] == [
        ("escalate", "interlock", 2, "two", job_hash, None, escalated),
        ("expire", "interlock", 3, "two", job_hash, None, {"state": "EXPIRED"}),
    ]

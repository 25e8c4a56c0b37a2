"""Lists: newest first, page by page, nothing twice and nothing left out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interlock.kernel.pages import PAGE_BYTES_MAX
from interlock.rooms.audit import queries
from tests.harness.in_process_api import ASK, InProcessApi


async def pages(api: InProcessApi, path: str, limit: int) -> list[list[Any]]:
    found: list[list[Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        page = await api.get(f"{path}limit={limit}" + (f"&cursor={cursor}" if cursor else ""))
        found.append(page["items"])
        cursor = page["next_cursor"]
    return found


async def test_jobs_come_newest_first_page_by_page(durable: InProcessApi) -> None:
    await durable.policy(ASK)
    bot = await durable.agent()
    made = [await durable.submit(bot, topic="read" if n % 3 else "pay") for n in range(7)]

    found = await pages(durable, "jobs?", 3)

    assert [[item["id"] for item in page] for page in found] == [made[6:3:-1], made[3:0:-1], made[0:1]]


async def test_a_full_last_page_is_the_last(durable: InProcessApi) -> None:
    await durable.policy(ASK)
    bot = await durable.agent()
    made = [await durable.submit(bot) for _ in range(4)]

    found = await pages(durable, "jobs?", 2)

    assert [[item["id"] for item in page] for page in found] == [made[3:1:-1], made[1::-1]]
    for path in ("audit?", "approvals?state=pending&", "principals?", "policy/snapshots?"):
        every = (await durable.get(f"{path}limit=200"))["items"]
        assert [len(page) for page in await pages(durable, path, len(every))] == [len(every)], path


async def test_a_page_of_large_records_ends_early_and_nothing_is_left_out(durable: InProcessApi) -> None:
    await durable.policy(ASK)
    bot = await durable.agent()
    sizes = (900_000, 10, 900_000, 900_000, 900_000, 20, 450_000, 30)
    made = [await durable.submit(bot, {"text": "ü" * (size // 2)}) for size in sizes]

    for path in ("jobs?", "approvals?state=pending&"):
        found = await pages(durable, path, 200)
        name = "id" if path == "jobs?" else "job_id"
        assert [item[name] for page in found for item in page] == made[::-1], path
        bytes_of_pages = [len(json.dumps(page, ensure_ascii=False).encode()) for page in found]
        assert len(found) == 2, bytes_of_pages
        assert max(bytes_of_pages) < PAGE_BYTES_MAX + 1_100_000


async def test_one_large_record_is_a_page_and_the_last_has_no_cursor(durable: InProcessApi) -> None:
    await durable.policy(ASK)
    bot = await durable.agent()
    made = [await durable.submit(bot, {"text": "x" * 900_000}) for _ in range(3)]

    assert [[item["id"] for item in page] for page in await pages(durable, "jobs?", 3)] == [made[::-1]]
    assert [len(page) for page in await pages(durable, "jobs?", 1)] == [1, 1, 1]


async def test_large_policies_and_workflows_are_paged_by_their_size_too(durable: InProcessApi) -> None:
    text = "x" * 250_000
    for n in range(10):
        rules = f"rules: [{{id: r{n}, decision: allow}}]"
        await durable.policy(f"version: v1\n# {text}\ndefault: deny\n{rules}\n")
        groups = [f"{number}-{text[:196]}" for number in range(50)]
        steps = [{"id": f"s{number}", "kind": "approval", "groups": groups} for number in range(25)]
        defined = await durable.call("PUT", f"workflows/w{n}", durable.admin, {"steps": steps})
        assert defined.status == 200, defined.document

    for path, key in (("policy/snapshots?", "snapshot"), ("workflows?", "id")):
        found = await pages(durable, path, 200)
        assert [len(page) for page in found] == [9, 1], path
        assert len({item[key] for page in found for item in page}) == 10


async def test_a_simulation_reads_page_by_page_whatever_their_size(durable: InProcessApi) -> None:
    await durable.policy(ASK)
    bot = await durable.agent()
    for _ in range(5):
        await durable.submit(bot, {"text": "x" * 900_000})
    body = {"policy": {"version": "v1", "default": "allow", "rules": []}, "last": 4}

    said = (await durable.call("POST", "policy/simulate", durable.admin, body)).document

    assert (said["examined"], len(said["changes"])) == (4, 4)


async def test_a_rare_entry_is_found_in_a_long_log_a_stretch_at_a_time(
    durable: InProcessApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    await durable.policy(ASK)
    bot, rare = await durable.agent(), await durable.agent("rare")
    other = await durable.agent("other", tenant="another")
    made = [await durable.submit(rare, topic="read")]
    for n in range(30):
        await durable.submit(bot, topic="read")
        await durable.propose(other, topic="read")
        if n % 10 == 9:
            made.append(await durable.submit(rare, topic="read"))
    monkeypatch.setattr(queries, "STRETCH", 3)
    asked = "actor=rare&action=submit"

    every = [await pages(durable, f"audit?{asked}&", limit) for limit in (1, 2, 200)]
    narrow = await durable.get(f"audit?{asked}&subject={made[0]}")

    for found in every:
        assert [entry["subject"] for page in found for entry in page] == made[::-1]
    assert len(every[-1]) > 1, "one page looks through a part of the log only"
    assert [entry["subject"] for entry in narrow["items"]] == made[:1]
    assert [entry for page in await pages(durable, "audit?actor=nobody&", 200) for entry in page] == []


async def test_jobs_are_narrowed_by_state_and_topic(durable: InProcessApi) -> None:
    await durable.policy(ASK)
    bot, ada = await durable.agent(), await durable.person("ada")
    asked, approved, read = (
        await durable.submit(bot),
        await durable.submit(bot),
        await durable.submit(bot, topic="read"),
    )
    await durable.approve(approved, ada)

    async def ids(query: str) -> list[str]:
        return [item["id"] for item in (await durable.get(f"jobs?{query}"))["items"]]

    assert await ids("state=APPROVAL") == [asked]
    assert await ids("topic=pay") == [approved, asked]
    assert await ids("state=PENDING") == [read, approved]
    assert await ids("state=PENDING&topic=pay") == [approved]
    assert await ids("state=RUNNING") == []


async def test_approvals_are_narrowed_by_state(durable: InProcessApi) -> None:
    await durable.policy(ASK)
    bot, ada = await durable.agent(), await durable.person("ada")
    pending, approved, rejected = [await durable.submit(bot) for _ in range(3)]
    await durable.submit(bot, topic="read")
    await durable.approve(approved, ada)
    await durable.reject(rejected, ada)

    async def ids(query: str) -> list[str]:
        return [item["id"] for item in (await durable.get(f"approvals{query}"))["items"]]

    assert await ids("?state=pending") == [pending]
    assert await ids("?state=approved") == [approved]
    assert await ids("?state=rejected") == [rejected]
    assert await ids("") == [rejected, approved, pending]
    assert (await durable.call("GET", "approvals?state=what", ada)).status == 400


async def test_the_history_of_a_job_is_everything_that_happened_to_it(durable: InProcessApi) -> None:
    await durable.policy(ASK)
    bot, ada = await durable.agent(), await durable.person("ada")
    job = await durable.submit(bot)
    before = await durable.job(job)
    await durable.approve(job, ada, job_hash="sha256:other")
    await durable.call("POST", f"approvals/{job}/approve", ada, {}, headers={"x-request-id": "the-one"})

    entries = (await durable.get(f"jobs/{job}/history", ada))["items"]

    assert [entry["action"] for entry in entries] == ["approve", "approve_refused", "submit"]
    decided = entries[0]
    assert (decided["actor"], decided["rule"], decided["request_id"]) == ("ada", "ask", "the-one")
    assert (decided["hash"], decided["subject_version"]) == (before["job_hash"], 2)
    assert entries[0]["n"] > entries[1]["n"] > entries[2]["n"]


async def test_the_audit_log_is_narrowed_by_subject_actor_and_action(durable: InProcessApi) -> None:
    await durable.policy(ASK)
    bot, ada = await durable.agent(), await durable.person("ada")
    first, second = await durable.submit(bot), await durable.submit(bot)
    await durable.approve(first, ada)

    async def found(query: str) -> list[tuple[str, str]]:
        return [(e["action"], e["subject"]) for e in (await durable.get(f"audit?{query}"))["items"]]

    assert await found("actor=ada") == [("approve", first)]
    assert await found("action=submit") == [("submit", second), ("submit", first)]
    assert await found(f"subject={first}&action=submit") == [("submit", first)]
    assert await found("actor=ada&action=submit") == []


async def test_keys_of_a_principal_who_was_removed_do_not_end_the_list(durable: InProcessApi) -> None:
    await durable.person("ada")
    gone = await durable.person("eve")
    await durable.call("POST", f"api-keys/{gone.split('_')[1]}/revoke", durable.admin, {})
    assert (await durable.call("DELETE", "principals/eve", durable.admin)).status < 300

    found: list[str] = []
    page = await durable.get("api-keys?limit=1")
    while True:
        found += [item["principal"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        page = await durable.get(f"api-keys?limit=1&cursor={page['next_cursor']}")

    assert found == [item["principal"] for item in (await durable.get("api-keys"))["items"]]
    assert found[0] == "ada"
    assert len(found) == 2  # and the admin


async def test_keys_of_one_principal_come_newest_first_without_those_of_others(durable: InProcessApi) -> None:
    body = {"kind": "person", "roles": ["review"]}
    made: list[str] = []
    for name in ("ada", "eve", "ada", "ada"):
        issued = await durable.call("POST", f"principals/{name}/keys", durable.admin, body)
        made += [issued.document["key_id"]] if name == "ada" else []

    found = await pages(durable, "api-keys?principal=ada&", 2)

    assert [[item["key_id"] for item in page] for page in found] == [made[:0:-1], made[:1]]
    assert {item["principal"] for page in found for item in page} == {"ada"}
    assert await pages(durable, "api-keys?principal=nobody&", 2) == [[]]

"""Who may issue a grant, how it ends, and what is left to see."""

from __future__ import annotations

from datetime import timedelta, timezone
from typing import Any

import pytest

from tests.rooms.grants.conftest import Granting


@pytest.mark.parametrize("kind", ["agent", "worker", "service"])
async def test_only_people_issue_grants_whatever_roles_others_have(granting: Granting, kind: str) -> None:
    machine = await granting.api.key("machine", kind, "review,admin,submit,operate")

    seen = await granting.issue(key=machine)

    assert (seen.status, seen.word) == (403, "people_only")
    assert ("grant_issue_refused", "refused") in await granting.api.audit("deploy")


async def test_a_person_without_the_role_issues_nothing(granting: Granting) -> None:
    submitter = await granting.api.person("sub", "submit")
    assert (await granting.issue(key=submitter)).word == "forbidden"


BAD: list[dict[str, Any]] = [
    {"pins": {"cents": {"max": "5"}}},
    {"pins": {"cents": {"maximum": 5}}},
    {"pins": {"cents": {"max": 5, "glob": "*"}}},
    {"pins": {"a..b": 1}},
    {"pins": {"branch": {"glob": ""}}},
    {"pins": {"branch": {"glob": 5}}},
    {"pins": {"branch": {"glob": "x" * 256}}},
    {"pins": {"cents": {"max": True}}},
    {"uses": 0},
    {"uses": 1.5},
    {"expires_in": "soon"},
    {"expires_in": "1h", "expires_at": "2030-01-01T01:00:00Z"},
    {"expires_in": 0, "expires_at": "2030-01-01T01:00:00Z"},
    {"expires_at": "2030-01-01T01:00:00"},
    {"expires_at": "2029-12-31T23:59:59Z"},
    {"expires_at": "2040-01-01T00:00:00Z"},
    {"limits": [{"path": "a", "total_max": 1}], "budget": {"path": "a", "total_max": 2}},
    {"limits": [{"path": "a", "total_max": -1}]},
    {"budget": {"path": "a..b", "total_max": 1}},
    {"signature": {"signer": "x", "value": "y"}},
    {"nonce": "gnt_of_a_signed_one"},
    {"unknown": 1},
]


@pytest.mark.parametrize("fields", BAD)
async def test_a_grant_that_says_nothing_certain_is_refused(
    granting: Granting, fields: dict[str, Any]
) -> None:
    seen = await granting.issue(**fields)
    assert (seen.status, seen.word) == (400, "invalid_request")


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"expires_at": "2029-12-31T23:59:59Z"}, "/expires_at"),
        ({"expires_at": "0001-01-01T00:00:00+02:00"}, "/expires_at"),
        ({"expires_in": "367d"}, "/expires_in"),
        ({"budget": {"path": "a..b", "total_max": 1}}, "/budget/path"),
        ({"limits": [{"path": "a", "total_max": 1}, {"path": "b.", "total_max": 1}]}, "/limits/1/path"),
        (
            {"limits": [{"path": "a", "total_max": 1}], "budget": {"path": "a", "total_max": 2}},
            "/budget/path",
        ),
    ],
)
async def test_a_refusal_says_in_which_field_the_fault_is(
    granting: Granting, fields: dict[str, Any], place: str
) -> None:
    seen = await granting.issue(**fields)
    assert (seen.status, [fault["path"] for fault in seen.document["errors"]]) == (400, [place])


async def test_a_moment_with_an_offset_is_told_in_utc(granting: Granting) -> None:
    ends = granting.api.clock.now + timedelta(minutes=5)
    local = ends.astimezone(timezone(timedelta(hours=2)))

    issued = (await granting.issue(expires_at=local.isoformat())).document
    granting.api.clock.advance(301)

    assert issued["expires_at"] == f"{ends:%Y-%m-%dT%H:%M:%S}Z"
    assert f"expired at {ends:%Y-%m-%dT%H:%M:%SZ}" in (await granting.claim())["reason"]


async def test_a_grant_past_its_time_is_expired_though_no_sweep_has_run(granting: Granting) -> None:
    grant = await granting.grant(expires_in="10m", uses=3)
    granting.api.clock.advance(599)
    assert (await granting.claim())["claimed"]

    granting.api.clock.advance(1)
    answer = await granting.claim(grant_id=grant)

    assert answer["reason"] == f"{grant}: state: it is expired"
    assert not (await granting.claim())["claimed"]
    assert await granting.state(grant) == "open"


async def test_a_sweep_marks_what_is_overdue_and_says_so(granting: Granting) -> None:
    grant = await granting.grant(expires_in="10m", uses=3)
    await granting.claim()
    granting.api.clock.advance(600)

    await granting.api.sweep()

    assert await granting.state(grant) == "expired"
    assert (await granting.api.events(grant))[-1] == "grant.expired"
    tally = (await granting.read(grant))["tally"]
    assert tally == {"issued": 3, "open": 0, "claimed": 1, "expired": 2, "revoked": 0}


async def test_revoking_ends_what_is_left_and_keeps_what_was_claimed(granting: Granting) -> None:
    grant = await granting.grant(uses=3)
    won = await granting.claim({}, "run-7")

    seen = await granting.api.call("POST", f"grants/{grant}/revoke", granting.ada, {"reason": "enough"})

    assert (seen.status, seen.document["state"], seen.document["revoked_by"]) == (200, "revoked", "ada")
    assert seen.document["tally"] == {"issued": 3, "open": 0, "claimed": 1, "expired": 0, "revoked": 2}
    assert not (await granting.claim())["claimed"]
    assert await granting.claim({}, "run-7") == won


async def test_revoking_a_spent_grant_does_not_hide_that_it_was_spent(granting: Granting) -> None:
    grant = await granting.grant()
    await granting.claim()

    seen = await granting.api.call("POST", f"grants/{grant}/revoke", granting.ada, {})

    assert (seen.status, seen.word, seen.document["state"]) == (409, "not_actionable", "spent")
    after = await granting.read(grant)
    assert (after["state"], len(after["claims"])) == ("spent", 1)


async def test_revoking_twice_changes_nothing(granting: Granting) -> None:
    grant = await granting.grant()
    call = granting.api.call
    first = await call("POST", f"grants/{grant}/revoke", granting.ada, {})
    again = await call("POST", f"grants/{grant}/revoke", granting.ada, {})

    assert (again.status, again.document) == (200, first.document)
    assert (await granting.api.events(grant)).count("grant.revoked") == 1


async def test_grants_are_listed_by_task_and_by_state_as_the_clock_has_it(granting: Granting) -> None:
    spent = await granting.grant("a")
    await granting.claim(task="a")
    opened = await granting.grant("a")
    other = await granting.grant("b")

    async def listed(query: str) -> set[str]:
        return {item["id"] for item in (await granting.api.get(f"grants?{query}"))["items"]}

    assert await listed("limit=50") == {spent, opened, other}
    assert await listed("task=a") == {spent, opened}
    assert await listed("state=open") == {opened, other}
    assert await listed("task=a&state=spent") == {spent}
    assert await listed("task=b&state=revoked") == set()


async def test_another_tenant_sees_none_of_it(granting: Granting) -> None:
    grant = await granting.grant()
    stranger = await granting.api.person("eve", "review,admin", tenant="other")
    call = granting.api.call

    assert (await call("GET", f"grants/{grant}", stranger)).status == 404
    assert (await call("POST", f"grants/{grant}/revoke", stranger, {})).status == 404
    assert (await call("GET", "grants", stranger)).document["items"] == []

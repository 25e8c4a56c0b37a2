"""What grants leave behind: audit entries, events, and bytes that any program can sign and check."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from interlock.rooms.grants.model import SpendLimit, pins_of, signed_bytes, written_pins
from tests.rooms.grants.conftest import Granting, Pen, register

PINS = {
    "branch": {"glob": "release/*"},
    "cents": {"max": 0.5},
    "deep.0": [1, {"a": None}],
    "env": "test",
    "shape": {"exact": {"max": 5}},
}


async def told(granting: Granting, subject: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Action, actor and details of every audit entry about something, oldest first."""
    entries = (await granting.api.get(f"audit?subject={subject}"))["items"]
    return [(entry["action"], entry["actor"], entry["details"]) for entry in reversed(entries)]


async def test_a_grants_life_is_audited_and_announced(granting: Granting) -> None:
    grant = await granting.grant(uses=2, reason="the release")
    use = await granting.claim({"env": "test"}, execution="e")
    granting.api.clock.advance(60)
    revoked = await granting.api.call("POST", f"grants/{grant}/revoke", granting.ada, {"reason": "enough"})

    args = (await told(granting, grant))[1][2]["args"]
    assert args.startswith("sha256:")
    assert await told(granting, grant) == [
        ("grant_issue", "ada", {"task": "deploy", "uses": 2, "reason": "the release"}),
        ("grant_claim", "bot", {"use": use["use"], "execution_id": "e", "args": args}),
        ("grant_revoke", "ada", {"reason": "enough", "claimed": 1}),
    ]
    assert await granting.api.events(grant) == ["grant.issued", "grant.claimed", "grant.revoked"]
    assert (revoked.document["reason"], revoked.document["revoked_by"]) == ("the release", "ada")
    assert revoked.document["revoked_at"] == "2030-01-01T00:01:00Z"


async def test_what_time_left_of_a_grant_and_what_came_too_late_are_audited(granting: Granting) -> None:
    overdue = await granting.grant(uses=3, expires_in="10m")
    await granting.claim()
    spent = await granting.grant("other")
    await granting.claim(task="other")
    granting.api.clock.advance(600)
    await granting.api.sweep()

    late = await granting.api.call("POST", f"grants/{spent}/revoke", granting.ada, {})

    assert late.status == 409
    assert (await told(granting, overdue))[-1] == ("grant_expire", "interlock", {"left": 2})
    assert (await told(granting, spent))[-1][:2] == ("grant_revoke_refused", "ada")


async def test_what_was_tried_with_signatures_is_audited(granting: Granting, pen: Pen) -> None:
    api, mark = granting.api, pen.fingerprint
    await api.call("PUT", "grants/terms", api.admin, {"signed_tasks": ["deploy"]})
    signed = pen.sign(api)
    await granting.issue()
    await granting.issue(**{**signed, "uses": 9})
    grant = await granting.grant(**signed)
    changed = {**pen.sign(api, uses=5, nonce=signed["nonce"])}
    assert (await granting.issue(**changed)).status == 409
    address = mark.replace("/", "%2F").replace("+", "%2B")
    first = await api.call("POST", f"signers/{address}/revoke", api.admin, {})
    api.clock.advance(60)
    again = await api.call("POST", f"signers/{address}/revoke", api.admin, {})

    tried = [(action, actor) for action, actor, _ in await told(granting, "deploy")]
    assert tried == [("grant_issue_refused", "ada")] * 3
    assert (await told(granting, grant))[0][2]["signer"] == mark
    assert await told(granting, "grants") == [("grant_terms_set", "root", {"signed_tasks": ["deploy"]})]
    named = {"fingerprint": mark}
    assert (await told(granting, "ada"))[1:] == [
        ("signer_add", "root", named),
        ("signer_revoke", "root", named),
    ]
    assert again.document == first.document
    assert (await register(granting, pen)).status == 409


def test_what_is_signed_is_the_same_bytes_for_ever() -> None:
    signed = signed_bytes(
        tenant="default",
        task="deploy",
        pins=pins_of(PINS),
        limits=(SpendLimit(path="cents", total_max=9),),
        uses=2,
        expires_at=datetime(2030, 1, 1, tzinfo=UTC),
        approver="ada",
        nonce="gnt_1",
        standing=False,
    )
    assert signed == (
        b'interlock:grant/v1\n{"approver":"ada","expires_at":1893456000000000,'
        b'"limits":[{"path":"cents","total_max":9}],"nonce":"gnt_1","pins":['
        b'{"glob":"release/*","path":"branch"},{"max":0.5,"path":"cents"},'
        b'{"exact":[1,{"a":null}],"path":"deep.0"},{"exact":"test","path":"env"},'
        b'{"exact":{"max":5},"path":"shape"}],"standing":false,"task":"deploy","tenant":"default","uses":2}'
    )


def test_pins_are_shown_as_they_were_written() -> None:
    assert written_pins(pins_of(PINS)) == PINS


@pytest.mark.parametrize(
    "args", [{"a": "0"}, {"a": {"b": 0}}, {"a": ["x"]}, {"a": 7}, {"a": None}, ["a"], "a"]
)
@pytest.mark.parametrize("path", ["a.1", "a.x", "a.b.c", "1"])
async def test_a_pin_on_what_is_not_there_fits_nothing(granting: Granting, path: str, args: Any) -> None:
    await granting.grant(pins={path: "0"})
    assert f"pin {path}: the argument is missing" in (await granting.claim(args))["reason"]


@pytest.mark.parametrize("amount", ["5", True, None, [1]])
async def test_only_a_number_is_taken_from_a_budget(granting: Granting, amount: Any) -> None:
    await granting.grant(uses=9, budget={"path": "cents", "total_max": 10})
    assert "must be a number" in (await granting.claim({"cents": amount}))["reason"]
    assert (await granting.claim({"cents": 0}))["claimed"]

"""Signing keys: one at first, a new one on demand, and each published for as long as it may be needed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from interlock.rooms.identity.model import Caller
from interlock.rooms.identity.refusals import Forbidden
from interlock.rooms.permits.model import EnsureKey, KeyRing, NewSigningKey, RotateKeys
from tests.rooms.jobs.job_client import JobClient


def made(kid: str) -> NewSigningKey:
    return NewSigningKey(kid=kid, public="p", private="s", sealed=False)


async def rotate(client: JobClient, kid: str, **fields: Any) -> KeyRing:
    command = RotateKeys(offered=made(kid), tenant="default", **{"lead_seconds": 60, **fields})
    return await client.api.service.kernel.run(command)


def signing(client: JobClient, ring: KeyRing) -> str | None:
    key = ring.signing(client.api.clock.now)
    return key.kid if key else None


async def test_of_several_servers_that_offer_a_first_key_one_wins(client: JobClient) -> None:
    run = client.api.service.kernel.run
    rings = [await run(EnsureKey(offered=made(kid))) for kid in ("a", "b")]
    assert [[key.kid for key in ring.keys] for ring in rings] == [["a"], ["a"]]


async def test_the_first_key_and_the_one_after_a_theft_sign_at_once_and_another_later(
    client: JobClient,
) -> None:
    assert signing(client, await rotate(client, "a")) == "a"
    ring = await rotate(client, "b")
    assert signing(client, ring) == "a"
    client.api.clock.advance(60)
    assert signing(client, ring) == "b"
    stolen = await rotate(client, "c", revoke=True)
    assert (signing(client, stolen), [key.kid for key in stolen.keys]) == ("c", ["c"])


async def test_a_second_rotation_keeps_no_key_longer_than_the_first_did(client: JobClient) -> None:
    await rotate(client, "a")
    first = (await rotate(client, "b")).keys[0].published_until
    client.api.clock.advance(120)

    ring = await rotate(client, "c")

    ends = {key.kid: key.published_until for key in ring.keys}
    assert first is not None
    assert ends == {"a": first, "b": first + timedelta(seconds=120), "c": None}


async def test_a_rotation_checks_its_caller_and_is_audited(client: JobClient) -> None:
    with pytest.raises(Forbidden):
        await rotate(client, "a", by=Caller(tenant="default", principal="ada"))
    root = Caller(tenant="default", principal="root", request_id="monday")
    for kid, revoke in (("a", False), ("b", True)):
        await rotate(client, kid, by=root, revoke=revoke)
        (entry,) = (await client.api.get(f"audit?subject={kid}"))["items"]
        told = [entry[field] for field in ("action", "actor", "request_id", "details")]
        assert told == ["permit_key_rotate", "root", "monday", {"revoke": revoke}]

"""Who the caller is and what it may is judged by the transaction that decides, whatever was looked up before it."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.kernel.world import Command
from interlock.rooms.identity.model import (
    API_KEYS,
    PRINCIPALS,
    ApiKey,
    Caller,
    Principal,
    PrincipalKind,
    Role,
)
from interlock.rooms.identity.principals import (
    BootstrapAdmin,
    EnsureLocalPerson,
    IssueKey,
    RemovePrincipal,
    RevokeKey,
    SetPrincipal,
)
from interlock.rooms.identity.refusals import Forbidden, NotFound, Unauthenticated
from interlock.rooms.identity.rules import caller_reads
from tests.harness.in_process_api import InProcessApi

TENANT = "default"


class KeyIssuer:
    """Issues keys on the store itself, as an operator does, and shows what is stored."""

    def __init__(self, api: InProcessApi) -> None:
        self.api = api
        self.run = api.service.kernel.run

    async def issue(
        self, name: str, *roles: Role, kind: PrincipalKind = PrincipalKind.PERSON, **given: Any
    ) -> Caller:
        """A principal with a key called after it."""
        key_id, digest = f"key-{name}", name[0] * 64
        await self.run(
            IssueKey(tenant=TENANT, name=name, kind=kind, roles=roles, key_id=key_id, digest=digest, **given)
        )
        return Caller(tenant=TENANT, principal=name, key_id=key_id, key_digest=digest)

    async def principal(self, name: str) -> Principal:
        found = await self.api.service.store.get(PRINCIPALS, TENANT, name)
        assert found is not None
        return found

    async def key(self, name: str) -> ApiKey | None:
        return await self.api.service.store.get(API_KEYS, TENANT, f"key-{name}")

    async def is_live(self, name: str) -> bool:
        key = await self.key(name)
        return key is not None and key.revoked_at is None


@pytest.fixture
def issuer(api: InProcessApi) -> KeyIssuer:
    return KeyIssuer(api)


def changes_by(caller: Caller) -> list[Command[Any]]:
    """Every change that a caller can ask for, of a principal called bot."""
    digest = "f" * 64
    return [
        IssueKey(
            tenant=TENANT,
            name="bot",
            kind=PrincipalKind.AGENT,
            roles=(Role.ADMIN,),
            key_id="key-forged",
            digest=digest,
            by=caller,
        ),
        SetPrincipal(tenant=TENANT, name="bot", roles=(Role.ADMIN,), by=caller),
        RevokeKey(tenant=TENANT, key_id="key-bot", principal="bot", by=caller),
        RemovePrincipal(tenant=TENANT, name="bot", by=caller),
    ]


async def test_every_change_asks_for_an_admin_when_it_is_decided(issuer: KeyIssuer) -> None:
    await issuer.issue("bot", Role.SUBMIT, kind=PrincipalKind.AGENT)
    eve = await issuer.issue("eve", Role.SUBMIT, Role.WORK, Role.REVIEW, Role.OPERATE, Role.AUDIT)
    before = await issuer.principal("bot")

    for change in changes_by(eve):
        with pytest.raises(Forbidden, match="'admin'"):
            await issuer.run(change)

    assert await issuer.principal("bot") == before
    assert await issuer.key("forged") is None
    assert await issuer.is_live("bot")


async def test_every_change_is_refused_to_a_revoked_a_wrong_and_an_unknown_key(issuer: KeyIssuer) -> None:
    await issuer.issue("bot", Role.SUBMIT, kind=PrincipalKind.AGENT)
    ada = await issuer.issue("ada", Role.ADMIN)
    gone = await issuer.issue("gone", Role.ADMIN)
    await issuer.run(RevokeKey(tenant=TENANT, key_id="key-gone", principal="gone", by=ada))
    wrong = Caller(tenant=TENANT, principal="ada", key_id="key-ada", key_digest="b" * 64)
    unknown = Caller(tenant=TENANT, principal="ada", key_id="key-none", key_digest="0" * 64)
    nobody = Caller(tenant=TENANT, principal="nobody")

    for caller in (gone, wrong, unknown, nobody):
        for change in changes_by(caller):
            with pytest.raises(Unauthenticated):
                await issuer.run(change)

    for change in changes_by(ada)[:3]:
        await issuer.run(change)


def test_calls_of_one_caller_do_not_wait_for_each_other() -> None:
    keyed = caller_reads(Caller(tenant=TENANT, principal="ada", key_id="key-ada"))
    trusted = caller_reads(Caller(tenant=TENANT, principal="ada"))

    assert (keyed.own, trusted.own) == ((), ())
    assert set(keyed.see) == {API_KEYS.key(TENANT, "key-ada"), PRINCIPALS.key(TENANT, "ada")}
    assert trusted.see == (PRINCIPALS.key(TENANT, "ada"),)


async def test_a_key_is_revoked_under_its_own_principal_only(issuer: KeyIssuer) -> None:
    await issuer.issue("ada")
    await issuer.issue("eve")

    for key_id, principal in (("key-none", "ada"), ("key-ada", "nobody"), ("key-ada", "eve")):
        with pytest.raises(NotFound, match=f"no key '{key_id}'"):
            await issuer.run(RevokeKey(tenant=TENANT, key_id=key_id, principal=principal))

    assert await issuer.is_live("ada")
    assert (await issuer.principal("eve")).keys_live == 1


async def test_whoever_has_a_key_left_can_act_and_whoever_has_none_cannot(issuer: KeyIssuer) -> None:
    await issuer.issue("ada")
    await issuer.run(
        IssueKey(
            tenant=TENANT, name="ada", kind=PrincipalKind.PERSON, roles=(), key_id="key-two", digest="2" * 64
        )
    )

    left: list[tuple[int, bool]] = []
    for key_id in ("key-ada", "key-ada", "key-two"):
        await issuer.run(RevokeKey(tenant=TENANT, key_id=key_id, principal="ada"))
        ada = await issuer.principal("ada")
        left.append((ada.keys_live, ada.can_act))

    assert left == [(1, True), (1, True), (0, False)]


async def test_an_owner_stands_for_the_person_behind_it_and_stays_until_another_is_named(
    issuer: KeyIssuer,
) -> None:
    await issuer.issue("ada")
    await issuer.issue("bob")
    await issuer.issue("first", kind=PrincipalKind.AGENT, owner="ada")
    await issuer.issue("second", kind=PrincipalKind.AGENT, owner="first")

    async def owner() -> str | None:
        return (await issuer.principal("second")).person

    assert await owner() == "ada"
    await issuer.issue("second", kind=PrincipalKind.AGENT)
    await issuer.run(SetPrincipal(tenant=TENANT, name="second", roles=()))
    assert await owner() == "ada"
    await issuer.run(SetPrincipal(tenant=TENANT, name="second", owner="bob"))
    assert await owner() == "bob"
    await issuer.run(SetPrincipal(tenant=TENANT, name="second", owner="first"))
    assert await owner() == "ada"
    await issuer.run(SetPrincipal(tenant=TENANT, name="second", owner="somebody outside"))
    assert await owner() == "somebody outside"


async def test_what_is_not_named_stays_and_the_audit_has_all_of_it(issuer: KeyIssuer) -> None:
    await issuer.issue("ada", Role.REVIEW, groups=("finance",), owner="bob")

    await issuer.run(SetPrincipal(tenant=TENANT, name="ada", groups=("ops",)))

    ada = await issuer.principal("ada")
    assert (ada.roles, ada.groups, ada.owner) == ((Role.REVIEW,), ("ops",), "bob")
    (entry, _) = (await issuer.api.get("audit?subject=ada"))["items"]
    expected = {"roles": ["review"], "groups": ["ops"], "owner": "bob", "keys_live": 1}
    assert (entry["action"], entry["actor"], entry["details"]) == ("principal_set", "operator", expected)


async def test_the_owner_of_an_embedded_store_is_made_once_and_cannot_be_removed(issuer: KeyIssuer) -> None:
    local = EnsureLocalPerson(tenant=TENANT, name="local:ada")
    await issuer.run(local)
    await issuer.run(SetPrincipal(tenant=TENANT, name="local:ada", roles=(Role.AUDIT,)))

    assert (await issuer.run(local)).roles == (Role.AUDIT,)
    with pytest.raises(NotFound, match="no principal 'local:ada'"):
        await issuer.run(RemovePrincipal(tenant=TENANT, name="local:ada"))
    with pytest.raises(NotFound, match="no principal 'nobody'"):
        await issuer.run(SetPrincipal(tenant=TENANT, name="nobody", roles=()))


async def test_an_empty_store_gets_one_first_key_whoever_is_quicker(issuer: KeyIssuer) -> None:
    first, second = (
        BootstrapAdmin(tenant=TENANT, roles=(Role.ADMIN,), key_id=f"key-{name}", digest=name * 64)
        for name in "ab"
    )

    assert (await issuer.run(first)) is not None
    assert (await issuer.run(second)) is None
    assert (await issuer.principal("admin")).keys_live == 1
    assert await issuer.key("b") is None

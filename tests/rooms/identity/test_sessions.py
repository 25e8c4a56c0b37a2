"""A session is a person who signed in: it does what they may, and ends at once when it or what it rests on goes."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from interlock.kernel.ids import new_id
from interlock.kernel.storage import Transaction
from interlock.rooms.identity.model import API_KEYS, Caller, PrincipalKind, Role
from interlock.rooms.identity.principals import EnsureLocalPerson, RemovePrincipal, RevokeKey, SetPrincipal
from interlock.rooms.identity.refusals import (
    Forbidden,
    KindMismatch,
    LinkOver,
    PeopleOnly,
    SessionOver,
    SignInRefused,
    Unauthenticated,
)
from interlock.rooms.identity.sessions import EndSession, ForgetSessions
from interlock.service.operator import revoke_key
from interlock.service.sessions import (
    Opened,
    Vouched,
    end,
    make_link,
    open_for,
    open_with_key,
    open_with_link,
    see,
)
from interlock.store.memory import MemoryStore
from interlock.wire.http import Request
from tests.harness.in_process_api import ASK, InProcessApi, VirtualClock, open_api

TENANT = "default"
MINUTE, HOUR = 60.0, 3600.0


async def signed_in(api: InProcessApi, name: str = "ada", roles: str = "review") -> Opened:
    return await open_with_key(api.service, await api.person(name, roles), client="127.0.0.1")


async def caller_of(api: InProcessApi, key: str) -> Caller:
    return (await api.service.keyring.known(key, recent_will_do=False)).caller


async def asked(
    api: InProcessApi, method: str, path: str, token: str, body: object = None, **made: Any
) -> int:
    """The status of a request that a part of this process makes for a session, unless told otherwise."""
    raw = b"" if body is None else msgspec.json.encode(body)
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    made.setdefault("made_via", "console")
    request = Request(method=method, path=f"/api/v1/{path}", headers=headers, body=raw, **made)
    return (await api.app.respond(request)).status


async def is_live(api: InProcessApi, token: str) -> bool:
    """Whether both kinds of check let the session in: the one of reads, and the deciding transaction's."""
    try:
        known = await api.service.keyring.known(token, recent_will_do=False, sessions_count=True)
    except SessionOver:
        return False
    assert known.session is not None
    return True


async def test_a_session_votes_as_its_person_and_says_where(api: InProcessApi) -> None:
    await api.policy(ASK)
    job = await api.submit(await api.agent())
    ada = await signed_in(api)
    assert await asked(api, "POST", f"approvals/{job}/approve", ada.token, {}) == 200
    votes = (await api.get(f"approvals/{job}"))["votes"]
    assert [(vote["principal"], vote["via"]) for vote in votes] == [("ada", "console")]


async def test_a_session_token_from_the_wire_is_refused(api: InProcessApi) -> None:
    ada = await signed_in(api, roles="admin")
    for method, path in (("GET", "principals/me"), ("PUT", "principals/ada")):
        assert (
            await asked(api, method, path, ada.token, {} if method == "PUT" else None, made_via=None) == 401
        )
    headers = {"x-api-key": ada.token}
    request = Request(method="GET", path="/api/v1/principals/me", headers=headers)
    assert (await api.app.respond(request)).status == 401


async def test_the_keyring_tells_who_is_signed_in(api: InProcessApi) -> None:
    ada = await signed_in(api)
    known = await see(api.service, ada.token)
    assert (known.principal, known.session, known.caller.session_id) == ("ada", ada.session, ada.session.id)
    assert ada.session.client == "127.0.0.1"
    assert ada.session.by == "key"


@pytest.mark.parametrize("kind", ["agent", "worker", "service"])
async def test_only_people_sign_in_with_a_key(api: InProcessApi, kind: str) -> None:
    key = await api.key("bot", kind, "review,admin")
    with pytest.raises(PeopleOnly):
        await open_with_key(api.service, key)
    assert ("session.refused", "PeopleOnly") in await api.audit("bot")


async def test_a_wrong_secret_of_a_known_key_is_refused_and_audited(api: InProcessApi) -> None:
    key = await api.person("ada")
    with pytest.raises(Unauthenticated):
        await open_with_key(api.service, key[:-1] + ("A" if key[-1] != "A" else "B"))
    assert ("session.refused", "Unauthenticated") in await api.audit("ada")


async def test_a_revoked_key_opens_nothing_and_is_audited(api: InProcessApi) -> None:
    key = await api.person("ada")
    await revoke_key(api.service, key.split("_")[1])
    with pytest.raises(Unauthenticated):
        await open_with_key(api.service, key)
    assert ("session.refused", "Unauthenticated") in await api.audit("ada")


async def test_an_unknown_key_opens_nothing(api: InProcessApi) -> None:
    for key in ("", "hello", f"il_{'0' * 16}_secret", "ses_1_2"):
        with pytest.raises(Unauthenticated):
            await open_with_key(api.service, key)


async def test_opening_and_ending_are_audited(api: InProcessApi) -> None:
    ada = await signed_in(api)
    await end(api.service, ada.token)
    entries = await api.audit("ada")
    assert [entry for entry in entries if entry[0].startswith("session")] == [
        ("session.opened", "done"),
        ("session.ended", "done"),
    ]


# --- what ends a session ---


async def test_a_session_that_was_ended_is_over_for_reads_and_decisions(api: InProcessApi) -> None:
    await api.policy(ASK)
    job = await api.submit(await api.agent())
    ada = await signed_in(api)
    assert await end(api.service, ada.token) is not None
    assert await asked(api, "GET", "principals/me", ada.token) == 401
    assert await asked(api, "POST", f"approvals/{job}/approve", ada.token, {}) == 401
    assert await end(api.service, ada.token) is None


async def test_a_decision_checks_the_session_again(api: InProcessApi) -> None:
    """What was looked up a moment ago counts for nothing in the transaction that decides."""
    ada, bob = await signed_in(api, "ada", "admin"), await signed_in(api, "bob", "admin")
    caller = (await see(api.service, ada.token)).caller
    await end(api.service, ada.token)
    with pytest.raises(SessionOver):
        await api.service.kernel.run(EndSession(caller=caller, session_id=bob.session.id))
    with pytest.raises(SessionOver):
        await api.service.kernel.run(SetPrincipal(tenant=TENANT, name="bob", roles=(), by=caller))
    forged = msgspec.structs.replace((await see(api.service, bob.token)).caller, key_digest="f" * 64)
    with pytest.raises(SessionOver):
        await api.service.kernel.run(EndSession(caller=forged, session_id=bob.session.id))


async def test_a_wrong_secret_is_no_session(api: InProcessApi) -> None:
    ada, bob = await signed_in(api), await signed_in(api, "bob")
    with pytest.raises(SessionOver):
        await see(api.service, f"{ada.session.id}_{bob.token.rsplit(bob.session.id + '_')[-1]}")


async def test_an_idle_session_is_over_after_half_an_hour(api: InProcessApi) -> None:
    ada = await signed_in(api)
    api.clock.advance(30 * MINUTE - 1)
    await api.sweep()
    assert await is_live(api, ada.token)
    api.clock.advance(1)
    await api.sweep()
    assert not await is_live(api, ada.token)


async def test_a_session_that_is_seen_goes_on_and_is_over_after_twelve_hours(api: InProcessApi) -> None:
    ada = await signed_in(api)
    for _ in range(35):
        api.clock.advance(20 * MINUTE)
        await api.sweep()
        await see(api.service, ada.token)
    api.clock.advance(20 * MINUTE - 1)
    await api.sweep()
    assert await is_live(api, ada.token)
    api.clock.advance(1)
    await api.sweep()
    assert not await is_live(api, ada.token)


async def test_loading_pages_writes_at_most_once_a_minute(api: InProcessApi) -> None:
    ada = await signed_in(api)
    versions: list[int] = []
    for _ in range(6):
        api.clock.advance(20)
        await api.sweep()
        known = await see(api.service, ada.token)
        assert known.session is not None
        versions.append(known.session.version)
    assert versions == [1, 1, 2, 2, 2, 3]


class CountingStore(MemoryStore):
    """A store that counts its transactions."""

    def __init__(self) -> None:
        super().__init__(clock=VirtualClock())
        self.transactions = 0

    async def transact(self, transaction: Transaction) -> None:
        self.transactions += 1
        await super().transact(transaction)


async def test_loading_pages_within_a_minute_takes_no_transaction() -> None:
    store = CountingStore()
    async with open_api(store) as api:
        ada = await signed_in(api)
        before = store.transactions
        for _ in range(5):
            await see(api.service, ada.token)
        assert store.transactions == before


async def test_a_session_ends_with_the_key_that_opened_it(api: InProcessApi) -> None:
    ada = await signed_in(api)
    other = await signed_in(api)
    assert ada.session.key_id is not None
    await api.service.kernel.run(RevokeKey(tenant=TENANT, key_id=ada.session.key_id, principal="ada"))
    assert not await is_live(api, ada.token)
    assert await is_live(api, other.token)


async def test_a_session_ends_when_a_role_of_its_person_goes(api: InProcessApi) -> None:
    ada = await signed_in(api, roles="review,audit")
    await api.service.kernel.run(SetPrincipal(tenant=TENANT, name="ada", roles=(Role.REVIEW,)))
    assert not await is_live(api, ada.token)


async def test_a_session_outlives_a_role_that_comes_and_has_it(api: InProcessApi) -> None:
    ada = await signed_in(api, roles="review")
    await api.service.kernel.run(SetPrincipal(tenant=TENANT, name="ada", roles=(Role.REVIEW, Role.ADMIN)))
    assert await asked(api, "GET", "principals", ada.token) == 200


async def test_a_session_ends_when_its_person_is_forgotten(api: InProcessApi) -> None:
    ada = await open_for(api.service, vouched("ada"), just_in_time=True)
    await api.service.kernel.run(RemovePrincipal(tenant=TENANT, name="ada"))
    assert not await is_live(api, ada.token)


# --- links ---


async def test_a_link_opens_one_session(api: InProcessApi) -> None:
    link = await make_link(api.service, await caller_of(api, await api.person("ada")))
    opened = await open_with_link(api.service, link.token)
    assert (opened.session.principal, opened.session.by) == ("ada", "link")
    assert await is_live(api, opened.token)
    with pytest.raises(LinkOver, match="used before"):
        await open_with_link(api.service, link.token)
    assert ("session.refused", "LinkOver") in await api.audit("ada")
    assert link.path == f"/console/sign-in?link={link.token}"


async def test_a_link_works_for_a_quarter_of_an_hour(api: InProcessApi) -> None:
    caller = await caller_of(api, await api.person("ada"))
    early, late = await make_link(api.service, caller), await make_link(api.service, caller)
    api.clock.advance(15 * MINUTE - 1)
    await open_with_link(api.service, early.token)
    api.clock.advance(1)
    with pytest.raises(LinkOver, match="expired"):
        await open_with_link(api.service, late.token)


async def test_a_link_with_a_wrong_secret_opens_nothing_and_stays_usable(api: InProcessApi) -> None:
    link = await make_link(api.service, await caller_of(api, await api.person("ada")))
    for token in (f"{link.link.id}_wrong", f"sil_{'0' * 32}_wrong", "wrong", ""):
        with pytest.raises(LinkOver, match="unknown"):
            await open_with_link(api.service, token)
    await open_with_link(api.service, link.token)


async def test_a_link_and_its_session_end_with_the_key_that_made_it(api: InProcessApi) -> None:
    caller = await caller_of(api, await api.person("ada"))
    await api.person("ada")
    used, unused = await make_link(api.service, caller), await make_link(api.service, caller)
    opened = await open_with_link(api.service, used.token)
    await api.service.kernel.run(RevokeKey(tenant=TENANT, key_id=caller.key_id or "", principal="ada"))
    assert not await is_live(api, opened.token)
    with pytest.raises(LinkOver, match="revoked"):
        await open_with_link(api.service, unused.token)


async def test_a_session_makes_links_that_end_with_its_key(api: InProcessApi) -> None:
    ada = await signed_in(api)
    link = await make_link(api.service, (await see(api.service, ada.token)).caller)
    assert link.link.key_id == ada.session.key_id


async def test_only_people_make_links_whatever_services_may_do(api: InProcessApi) -> None:
    caller = await caller_of(api, await api.key("ci", "service", "admin"))
    with pytest.raises(PeopleOnly):
        await make_link(api.service, msgspec.structs.replace(caller, services_may_administer=True))


async def test_the_person_of_the_file_signs_in_without_a_key(api: InProcessApi) -> None:
    await api.service.kernel.run(EnsureLocalPerson(tenant=TENANT, name="local:ada"))
    link = await make_link(api.service, Caller(tenant=TENANT, principal="local:ada"))
    opened = await open_with_link(api.service, link.token)
    assert await asked(api, "GET", "principals", opened.token) == 200


# --- identity providers ---


def vouched(name: str, *roles: Role, subject: str = "s1", provider: str = "corp") -> Vouched:
    return Vouched(
        provider=provider, subject=subject, name=name, roles=roles or (Role.REVIEW,), groups=("ops",)
    )


async def test_a_person_made_just_in_time_can_vote_without_a_key(api: InProcessApi) -> None:
    await api.policy(ASK)
    job = await api.submit(await api.agent())
    ada = await open_for(api.service, vouched("ada"), just_in_time=True)
    assert (ada.session.by, ada.session.key_id) == ("oidc:corp", None)
    assert await asked(api, "POST", f"approvals/{job}/approve", ada.token, {}) == 200
    assert (await api.job(job))["state"] == "PENDING"


async def test_nobody_is_made_where_that_is_not_allowed(api: InProcessApi) -> None:
    with pytest.raises(SignInRefused):
        await open_for(api.service, vouched("ada"), just_in_time=False)
    assert ("session.refused", "SignInRefused") in await api.audit("ada")


async def test_without_just_in_time_a_person_keeps_the_roles_they_have(api: InProcessApi) -> None:
    await api.person("ada", "submit")
    ada = await open_for(api.service, vouched("ada", Role.ADMIN), just_in_time=False, may_adopt=True)
    assert ada.session.roles == (Role.SUBMIT,)


async def test_a_role_that_the_provider_takes_ends_the_older_sessions(api: InProcessApi) -> None:
    first = await open_for(api.service, vouched("ada", Role.REVIEW, Role.ADMIN), just_in_time=True)
    second = await open_for(api.service, vouched("ada", Role.REVIEW), just_in_time=True)
    assert not await is_live(api, first.token)
    assert await is_live(api, second.token)


@pytest.mark.parametrize(
    "other", [vouched("ada", subject="s2"), vouched("ada", provider="guests")], ids=["subject", "provider"]
)
async def test_another_account_of_the_same_name_does_not_become_that_person(
    api: InProcessApi, other: Vouched
) -> None:
    await open_for(api.service, vouched("ada"), just_in_time=True)
    with pytest.raises(SignInRefused, match="another account"):
        await open_for(api.service, other, just_in_time=True)


@pytest.mark.parametrize("just_in_time", [True, False])
async def test_an_account_does_not_become_a_person_who_was_here_before_unless_that_is_configured(
    api: InProcessApi, just_in_time: bool
) -> None:
    await api.person("ada", "admin")
    with pytest.raises(SignInRefused, match="oidc_adopt"):
        await open_for(api.service, vouched("ada"), just_in_time=just_in_time)
    await open_for(api.service, vouched("ada"), just_in_time=just_in_time, may_adopt=True)


async def test_an_account_with_another_name_is_the_person_it_was(api: InProcessApi) -> None:
    await open_for(api.service, vouched("ada"), just_in_time=True)
    again = await open_for(api.service, vouched("lovelace"), just_in_time=True)
    assert again.session.principal == "ada"


async def test_one_account_cannot_be_made_two_people_at_one_moment(api: InProcessApi) -> None:
    names = ("ada", "lovelace", "countess")
    opened = await asyncio.gather(
        *(open_for(api.service, vouched(name), just_in_time=True) for name in names), return_exceptions=True
    )
    assert len({each.session.principal for each in opened if isinstance(each, Opened)}) == 1


async def test_a_sign_in_is_completed_once(api: InProcessApi) -> None:
    chosen = new_id("ses")
    first = await open_for(api.service, vouched("ada"), just_in_time=True, session_id=chosen)
    assert first.session.id == chosen
    with pytest.raises(SignInRefused, match="works once"):
        await open_for(api.service, vouched("ada"), just_in_time=True, session_id=chosen)
    assert await is_live(api, first.token)


@pytest.mark.parametrize("kind", [PrincipalKind.AGENT, PrincipalKind.SERVICE])
async def test_nobody_signs_in_as_what_is_not_a_person(api: InProcessApi, kind: PrincipalKind) -> None:
    await api.key("bot", kind.value, "submit")
    with pytest.raises(KindMismatch):
        await open_for(api.service, vouched("bot"), just_in_time=True)


async def test_no_provider_vouches_for_the_person_of_the_file(api: InProcessApi) -> None:
    await api.service.kernel.run(EnsureLocalPerson(tenant=TENANT, name="local:ada"))
    with pytest.raises(SignInRefused):
        await open_for(api.service, vouched("local:ada"), just_in_time=True)


# --- ending those of others, and forgetting ---


async def test_an_admin_ends_the_session_of_another_and_others_do_not(api: InProcessApi) -> None:
    ada, bob = await signed_in(api), await signed_in(api, "bob")
    admin = await signed_in(api, "root", "admin")
    for credential, refusal in ((bob.token, Forbidden), (await api.agent("bot", "admin"), PeopleOnly)):
        known = await api.service.keyring.known(credential, recent_will_do=False, sessions_count=True)
        with pytest.raises(refusal):
            await api.service.kernel.run(EndSession(caller=known.caller, session_id=ada.session.id))
    assert await is_live(api, ada.token)
    root = (await see(api.service, admin.token)).caller
    ended = await api.service.kernel.run(EndSession(caller=root, session_id=ada.session.id))
    again = await api.service.kernel.run(EndSession(caller=root, session_id=ada.session.id))
    assert (ended.ended_by, again) == ("root", ended)
    assert not await is_live(api, ada.token)


async def test_old_sessions_and_links_are_forgotten_and_recent_ones_kept(api: InProcessApi) -> None:
    key = await api.person("ada")
    await make_link(api.service, await caller_of(api, key))
    old = await open_with_key(api.service, key)
    api.clock.advance(31 * 24 * HOUR)
    recent = await open_with_key(api.service, key)
    assert await api.service.kernel.run(ForgetSessions()) == 1
    assert await api.service.kernel.run(ForgetSessions()) == 0
    assert await is_live(api, recent.token)
    with pytest.raises(SessionOver, match="unknown"):
        await see(api.service, old.token)


async def test_no_secret_is_stored(api: InProcessApi) -> None:
    ada = await signed_in(api)
    stored = await api.service.store.query("identity.caller_by_session", {"session_id": ada.session.id})
    assert ada.token.removeprefix(f"{ada.session.id}_") not in str(stored)
    assert await api.service.store.get(API_KEYS, TENANT, ada.session.key_id or "") is not None

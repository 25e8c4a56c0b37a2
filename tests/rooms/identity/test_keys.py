"""Keys: kept as digests, compared as a whole, ended for good."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from interlock.rooms.identity.keys import digest_of, id_of, make_key
from interlock.service.operator import bootstrap
from interlock.service.service import Service
from interlock.service.settings import settings_from
from interlock.store.sqlite import SqliteStore
from tests.harness.in_process_api import ASK, InProcessApi, open_api


def public_id(key: str) -> str:
    return key.split("_")[1]


async def test_a_database_file_holds_no_key_but_its_digest(tmp_path: Path) -> None:
    async with open_api(SqliteStore(tmp_path / "interlock.db")) as api:
        await api.policy(ASK)
        bot, ada = await api.agent(), await api.person("ada")
        made = await api.call(
            "POST",
            "principals/eve/keys",
            api.admin,
            {"kind": "person", "roles": ["review"]},
            idempotency_key="k",
        )
        eve = made.document["key"]
        job = await api.submit(bot, idempotency_key="s1")
        await api.approve(job, ada)
        assert (await api.get("principals/me", eve))["name"] == "eve"
        keys = [api.admin, bot, ada, eve]

    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    for key in keys:
        secret = key.split("_", 2)[2]
        assert secret.encode() not in stored
        assert digest_of(key).encode() in stored


async def test_a_revoked_key_is_unknown_from_the_next_request_on(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, ada = await api.agent(), await api.person("ada")
    job = await api.submit(bot)
    await api.get(f"approvals/{job}", ada)

    revoked = await api.call("POST", f"api-keys/{public_id(ada)}/revoke", api.admin, {})

    assert revoked.status == 200
    for method, path in (
        ("GET", f"jobs/{job}"),
        ("POST", f"approvals/{job}/approve"),
        ("POST", "policy/evaluate"),
    ):
        seen = await api.call(method, path, ada, None if method == "GET" else {})
        assert (seen.status, seen.word) == (401, "unauthenticated"), path
        assert seen.headers["www-authenticate"].startswith("Bearer")
    assert (await api.job(job))["state"] == "APPROVAL"


async def test_a_repeat_under_a_revoked_key_is_not_answered(api: InProcessApi) -> None:
    """Another server may still remember the key; the deciding transaction does not."""
    await api.policy(ASK)
    bot = await api.agent()
    await api.submit(bot, idempotency_key="once")
    known = await api.service.keyring.known(bot, recent_will_do=True)
    await api.call("POST", f"api-keys/{public_id(bot)}/revoke", api.admin, {})
    api.service.keyring._keep(digest_of(bot), known)

    again = await api.propose(bot, idempotency_key="once")

    assert (again.status, again.word) == (401, "unauthenticated")


async def test_a_remembered_key_does_not_outlive_its_revocation_in_a_question(api: InProcessApi) -> None:
    bot = await api.agent()
    known = await api.service.keyring.known(bot, recent_will_do=True)
    await api.call("POST", f"api-keys/{public_id(bot)}/revoke", api.admin, {})
    api.service.keyring._keep(digest_of(bot), known)

    seen = await api.call("POST", "policy/evaluate", bot, {"topic": "pay"})

    assert seen.status == 401


async def test_every_server_is_told_of_a_revocation(api: InProcessApi) -> None:
    bot = await api.agent()
    with api.service.kernel.wakes.subscribe("keys") as woken:
        await api.call("POST", f"api-keys/{public_id(bot)}/revoke", api.admin, {})

        assert await woken.wait(5)


async def test_revoking_twice_changes_nothing(api: InProcessApi) -> None:
    bot = await api.agent()
    first = await api.call("POST", f"api-keys/{public_id(bot)}/revoke", api.admin, {})
    api.clock.advance(60)

    again = await api.call("POST", f"api-keys/{public_id(bot)}/revoke", api.admin, {})

    assert (again.status, again.document) == (200, first.document)
    assert [action for action, _ in await api.audit("bot")] == ["key_issue", "key_revoke"]


@pytest.mark.parametrize("change", ["secret", "id", "prefix", "case", "longer", "shorter", "empty", "digest"])
async def test_a_key_that_is_nearly_right_is_wrong(api: InProcessApi, change: str) -> None:
    bot = await api.agent()
    prefix, key_id, secret = bot.split("_", 2)
    wrong = {
        "secret": f"{prefix}_{key_id}_{'A' if secret[0] != 'A' else 'B'}{secret[1:]}",
        "id": f"{prefix}_{'0' * 16}_{secret}",
        "prefix": f"xx_{key_id}_{secret}",
        "case": f"{prefix}_{key_id}_{secret.swapcase()}",
        "longer": f"{bot}x",
        "shorter": bot[:-1],
        "empty": "",
        "digest": digest_of(bot),
    }[change]

    seen = await api.call("GET", "principals/me", wrong)

    assert (seen.status, seen.word) == (401, "unauthenticated")


async def test_either_header_will_do_but_not_two_different_keys(api: InProcessApi) -> None:
    bot, ada = await api.agent(), await api.person("ada")

    by_header = await api.call("GET", "principals/me", "", headers={"authorization": "", "x-api-key": bot})
    both_same = await api.call("GET", "principals/me", bot, headers={"x-api-key": bot})
    both_different = await api.call("GET", "principals/me", bot, headers={"x-api-key": ada})
    other_scheme = await api.call("GET", "principals/me", "", headers={"authorization": f"Basic {bot}"})

    assert (by_header.status, both_same.status) == (200, 200)
    assert (both_different.status, other_scheme.status) == (401, 401)


def test_two_keys_are_never_alike_and_carry_192_bits() -> None:
    keys = [make_key() for _ in range(100)]

    assert len({key.text for key in keys}) == 100
    assert all(len(key.text.split("_", 2)[2]) == 32 for key in keys)
    assert all(id_of(key.text) == key.id for key in keys)


async def test_two_servers_on_an_empty_store_make_one_admin(tmp_path: Path) -> None:
    services = [Service(SqliteStore(tmp_path / "interlock.db"), settings_from({})) for _ in range(2)]
    for service in services:
        await service.open(sweeping=False)
    try:
        made = await asyncio.gather(*(bootstrap(service) for service in services))
        again = await bootstrap(services[0])
    finally:
        for service in services:
            await service.close()

    assert [key is None for key in made].count(False) == 1
    assert again is None


async def test_keys_are_listed_newest_first_page_by_page_and_to_the_end(api: InProcessApi) -> None:
    for name in ("a", "b", "c", "d"):
        await api.person(name)

    pages: list[list[str]] = []
    cursor = ""
    while cursor is not None and len(pages) < 9:
        page = await api.get(f"api-keys?limit=2{cursor and '&cursor='}{cursor}")
        pages.append([item["principal"] for item in page["items"]])
        cursor = page["next_cursor"]

    assert pages == [["d", "c"], ["b", "a"], ["root"]]

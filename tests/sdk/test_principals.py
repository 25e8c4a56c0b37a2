"""Principals and API keys from a program: made, listed, changed, ended."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from interlock import AsyncInterlock, Conflict, Interlock, NotFound, Unauthenticated


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'interlock.db'}"


def test_a_key_that_a_program_made_acts_as_its_principal_until_it_is_revoked(store: str) -> None:
    with Interlock(store=store) as il:
        issued = il.create_api_key("ada", kind="person", roles=["review"], groups=["finance"])
        with Interlock(store=store, key=issued.key) as ada:
            me = ada.whoami()
            assert (me.name, me.kind, me.roles, me.groups) == ("ada", "person", ("review",), ("finance",))
            revoked = il.revoke_api_key(issued.key_id)
            assert revoked.revoked_at
            with pytest.raises(Unauthenticated):
                ada.whoami()
        assert [(key.key_id, key.principal) for key in il.api_keys(principal="ada").items] == [
            (issued.key_id, "ada")
        ]


def test_the_same_intent_gives_the_same_key(store: str) -> None:
    with Interlock(store=store) as il:
        admin = il.create_api_key("root", kind="person", roles=["admin"]).key
    with Interlock(store=store, key=admin) as il:
        first = il.create_api_key("bot", kind="agent", roles=["submit"], key="bot-1")
        again = il.create_api_key("bot", kind="agent", roles=["submit"], key="bot-1")
        assert again == first


def test_a_principal_is_read_changed_and_forgotten(store: str) -> None:
    with Interlock(store=store) as il:
        issued = il.create_api_key("bot", kind="agent", roles=["submit"], owner="ada")
        assert il.set_principal("bot", roles=["submit", "work"]).roles == ("submit", "work")
        seen = il.get_principal("bot")
        assert (seen.roles, seen.owner, seen.keys_live) == (("submit", "work"), "ada", 1)
        assert "bot" in [each.name for each in il.principals().items]
        with pytest.raises(Conflict):
            il.delete_principal("bot")
        il.revoke_api_key(issued.key_id)
        il.delete_principal("bot")
        with pytest.raises(NotFound):
            il.get_principal("bot")


def test_an_async_program_does_the_same(store: str) -> None:
    async def program() -> list[str]:
        async with AsyncInterlock(store=store) as il:
            await il.create_api_key("bot", kind="agent", roles=["submit"])
            return [key.principal for key in (await il.api_keys()).items]

    assert asyncio.run(program()) == ["bot"]


def test_the_figures_of_a_server_are_text(store: str) -> None:
    with Interlock(store=store) as il:
        il.apply_policy("version: v1\n")
        assert "# TYPE" in il.get_metrics()
        assert il.check_store().trouble is None

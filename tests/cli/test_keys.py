"""Keys from a terminal: on the store itself, with or without a server, and through a server as its admin."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tests.cli.terminal import POLICY, Terminal
from tests.harness.server import InterlockServer


def test_a_key_is_printed_once_and_never_listed(terminal: Terminal) -> None:
    made = terminal("key", "create", "mia", "--kind", "person", "--roles", "review,admin", "--json").json
    assert {"principal", "tenant", "key"} <= made.keys()
    assert (made["principal"], made["tenant"]) == ("mia", "default")
    listed = terminal("key", "list")
    assert made["key_id"] in listed.out
    assert made["key"] not in listed.out
    assert made["key"] not in (terminal.folder / ".interlock" / "interlock.db").read_bytes().decode("latin-1")


def test_a_key_shown_to_a_person_is_the_only_secret_on_the_page(terminal: Terminal) -> None:
    said = terminal("key", "create", "mia", "--kind", "person", "--roles", "review", "--groups", "finance")
    lines = [line.strip() for line in said.out.splitlines() if line.strip().startswith("il_")]
    assert len(lines) == 1
    assert said.out.count(lines[0]) == 1


def test_the_keys_of_one_principal_are_listed_alone(terminal: Terminal) -> None:
    for name in ("mia", "bob", "mia"):
        terminal("key", "create", name, "--kind", "person", "--roles", "review")

    listed = terminal("key", "list", "--principal", "mia", "--json").json["items"]
    nobody = terminal("key", "list", "--principal", "zoe")

    assert [each["principal"] for each in listed] == ["mia", "mia"]
    assert "zoe has no key" in nobody.out


def test_a_key_acts_as_its_principal(policy_terminal: Terminal) -> None:
    key = policy_terminal.key("payer", "--kind", "agent", "--roles", "submit", "--owner", "mia")
    policy_terminal.use(INTERLOCK_KEY=key)
    assert policy_terminal.submit("knowledge.read")["submitted_by"] == "payer"


def test_a_revoked_key_is_refused_at_once(policy_terminal: Terminal) -> None:
    made = policy_terminal("key", "create", "payer", "--kind", "agent", "--roles", "submit", "--json").json
    assert policy_terminal("jobs", "--api-key", made["key"]).code == 0
    assert "revoked" in policy_terminal("key", "revoke", made["key_id"]).out
    said = policy_terminal("jobs", "--api-key", made["key"])
    assert said.code == 1
    assert "interlock key create" in said.err
    assert "revoked" in policy_terminal("key", "list").out


def test_an_unknown_key_id_is_not_found(policy_terminal: Terminal) -> None:
    said = policy_terminal("key", "revoke", "0123456789abcdef", "--json")
    assert (said.code, said.problem["code"]) == (1, "not_found")


@pytest.mark.parametrize("field", ["key", "principal"])
@pytest.mark.parametrize("through", ["server", "store"])
def test_what_create_printed_is_enough_to_end_a_key(
    terminal: Terminal, serve: Callable[..., InterlockServer], sqlite_url: str, through: str, field: str
) -> None:
    server = serve(sqlite_url)
    terminal.use(INTERLOCK_URL=server.url, INTERLOCK_KEY=server.create_key("root", roles="admin").key)
    made = terminal("key", "create", "payer", "--kind", "agent", "--roles", "submit", "--json").json
    where = ("--store", sqlite_url) if through == "store" else ()

    ended = terminal("key", "revoke", made[field], *where, "--json").json

    assert (ended["key_id"], ended["principal"]) == (made["key_id"], "payer")
    assert ended["revoked_at"].endswith("Z")
    assert made["key"] not in str(ended)
    assert terminal("jobs", "--api-key", made["key"]).code == 1


def test_the_name_of_somebody_with_two_keys_ends_neither(policy_terminal: Terminal) -> None:
    keys = [policy_terminal.key("payer", "--kind", "agent", "--roles", "submit") for _ in range(2)]
    said = policy_terminal("key", "revoke", "payer")
    assert (said.code, "payer has 2 keys; name one of" in said.err) == (2, True)
    assert [policy_terminal("jobs", "--api-key", key).code for key in keys] == [0, 0]
    policy_terminal("key", "revoke", keys[0])
    assert policy_terminal("key", "revoke", "payer").code == 0
    assert policy_terminal("jobs", "--api-key", keys[1]).code == 1


def test_a_principal_keeps_its_kind(policy_terminal: Terminal) -> None:
    policy_terminal.key("payer", "--kind", "agent", "--roles", "submit")
    said = policy_terminal("key", "create", "payer", "--kind", "person", "--roles", "review")
    assert (said.code, "exists already as 'agent'" in said.err) == (1, True)


def test_roles_and_names_are_checked_before_anything_is_stored(terminal: Terminal) -> None:
    assert (
        "'boss' is not a role" in terminal("key", "create", "mia", "--kind", "person", "--roles", "boss").err
    )
    assert terminal("key", "create", "a b", "--kind", "person", "--roles", "review").code == 2
    assert not (terminal.folder / ".interlock").exists()


def test_tenants_do_not_see_each_other(policy_terminal: Terminal) -> None:
    key = policy_terminal(
        "key", "create", "mia", "--kind", "person", "--roles", "admin", "--tenant", "other", "--json"
    ).json
    policy_terminal.submit("knowledge.read")
    assert key["tenant"] == "other"
    assert policy_terminal("jobs", "--api-key", key["key"], "--json").json["items"] == []
    assert [each["principal"] for each in policy_terminal("key", "list", "--json").json["items"]] == []
    assert len(policy_terminal("key", "list", "--tenant", "other", "--json").json["items"]) == 1


def test_a_key_made_beside_a_running_server_works_there_at_once(
    terminal: Terminal, serve: Callable[..., InterlockServer], sqlite_url: str
) -> None:
    server = serve(sqlite_url)
    words = ("--kind", "person", "--roles", "review", "--store", sqlite_url, "--json")
    key = terminal("key", "create", "mia", *words).json["key"]
    assert terminal("jobs", "--url", server.url, "--api-key", key).code == 0


def test_an_admin_makes_lists_and_ends_keys_through_a_server(
    terminal: Terminal, serve: Callable[..., InterlockServer], sqlite_url: str
) -> None:
    server = serve(sqlite_url)
    terminal.use(INTERLOCK_URL=server.url, INTERLOCK_KEY=server.create_key("root", roles="admin").key)
    made = terminal("key", "create", "payer", "--kind", "agent", "--roles", "submit", "--json").json
    listed = terminal("key", "list", "--json").json["items"]
    assert made["key_id"] in {each["key_id"] for each in listed}
    assert datetime.fromisoformat(listed[0]["created_at"]) <= datetime.now(UTC)
    assert listed == terminal("key", "list", "--store", sqlite_url, "--json").json["items"]
    assert terminal("key", "list").code == 0
    assert terminal("key", "revoke", made["key_id"]).code == 0
    assert terminal("jobs", "--api-key", made["key"]).code == 1
    assert not (terminal.folder / ".interlock").exists()


def test_postgresql_opened_in_this_process_takes_the_same_commands(
    terminal: Terminal, postgres_url: str
) -> None:
    terminal.use(INTERLOCK_STORE=postgres_url)
    key = terminal.key("mia", "--kind", "person", "--roles", "review")
    assert "mia" in terminal("key", "list").out
    assert terminal("policy", "apply", terminal.file("policy.yaml", POLICY)).code == 0
    job = terminal.submit("finance.payment.execute", 500)
    assert terminal("approve", job["id"], "--api-key", key).code == 0
    assert terminal("job", job["id"], "--json").json["approval"]["decided_by"] == "mia"

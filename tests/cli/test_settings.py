"""`interlock settings`: what a server runs with, for people and for programs."""

from __future__ import annotations

from interlock.service.settings import Settings
from tests.cli.terminal import Terminal


def test_every_setting_is_shown_with_its_source_and_secrets_are_hidden(policy_terminal: Terminal) -> None:
    policy_terminal.use(INTERLOCK_SECRET="hunter2" * 5, INTERLOCK_BATCH_MAX="17")

    said = policy_terminal("settings")
    found = policy_terminal("settings", "--json").json

    assert said.code == 0
    assert "hunter2" not in said.out + str(found)
    rows = {line.split()[0]: line.split()[1:] for line in said.out.splitlines() if line}
    assert rows["secret"] == ["(hidden)", "environment"]
    assert rows["batch_max"] == ["17", "environment"]
    assert rows["lanes"] == ["2", "default"]
    assert [each["name"] for each in found["settings"]] == list(Settings.__struct_fields__)
    assert found["store_kind"] == "sqlite"
    assert found["store_place"].endswith("interlock.db")

"""interlock.toml: every setting can stand in it; the environment counts more, and a flag most."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.service.settings import NO_FILE, BadSetting, Settings, settings_from
from tests.cli.conftest import Terminal
from tests.harness.processes import kill_tree
from tests.harness.server import clean_env
from tools.settings import FILE, render


def test_the_shipped_file_names_every_setting_with_its_default(tmp_path: Path) -> None:
    assert FILE.read_text() == render(), "run `make docs`"
    named = tmp_path / "all.toml"
    named.write_text(re.sub(r"^# (\w+ = )", r"\1", FILE.read_text(), flags=re.MULTILINE))
    assert set(re.findall(r"^(\w+) =", named.read_text(), re.MULTILINE)) == set(Settings.__struct_fields__)
    read = settings_from({}, config=str(named))
    assert {name: getattr(read, name) for name in Settings.__struct_fields__} == msgspec.structs.asdict(
        Settings()
    )


def test_a_flag_counts_more_than_the_environment_and_that_more_than_the_file(tmp_path: Path) -> None:
    named = tmp_path / "some.toml"
    named.write_text('host = "::1"\nport = 1\nlanes = 3\nrelay = false\nbody_seconds = 2.5\n')
    environ = {"INTERLOCK_CONFIG": str(named), "INTERLOCK_PORT": "2", "INTERLOCK_LANES": "4"}
    settings = settings_from(environ, port="3")
    assert (settings.port, settings.lanes, settings.host) == (3, 4, "::1")
    assert (settings.relay, settings.body_seconds) == (False, 2.5)
    assert settings_from(environ, config=NO_FILE).host == "127.0.0.1"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prot = 1", "prot is not a setting; did you mean port"),
        ("tls-cert = 'a'", "tls-cert is not a setting; did you mean tls_cert"),
        ("port = 'x'", "port must be a whole number, not 'x'"),
        ("port = 70000", "port must be between 0 and 65535"),
        ("port = [1]", "port must be one value"),
        ("[serve]\nport = 1", "serve is not a setting"),
        ("port: 1", "is not TOML"),
        ("workers = 4", "workers must be 1 on SQLite"),
    ],
)
def test_what_a_file_cannot_mean_is_wrong_usage(terminal: Terminal, text: str, said: str) -> None:
    (terminal.folder / "interlock.toml").write_text(text)
    refused = terminal("serve")
    assert (refused.code, said in refused.err) == (2, True), refused
    assert "Traceback" not in refused.err


def test_a_file_that_is_named_must_be_there(terminal: Terminal) -> None:
    refused = terminal("serve", "--config", "nowhere.toml")
    assert (refused.code, "nowhere.toml" in refused.err) == (2, True)


def test_a_server_and_its_keys_go_by_the_file_in_the_folder(terminal: Terminal) -> None:
    lines = ['store = "sqlite:///named.db"', "port = 0", 'root_path = "/gate"', 'log_format = "text"']
    (terminal.folder / "interlock.toml").write_text("\n".join(lines))
    made = terminal("key", "create", "ann", "--kind", "person", "--roles", "review", "--json")
    assert made.code == 0, made
    process = subprocess.Popen(
        [sys.executable, "-m", "interlock.cli.main", "serve", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=terminal.folder, env=clean_env(),
    )  # fmt: skip
    try:
        assert process.stdout is not None
        announced: dict[str, Any] = json.loads(process.stdout.readline())
    finally:
        kill_tree(process.pid)
        process.communicate()
    assert announced["store"] == "sqlite:///named.db"
    assert announced["url"].endswith("/gate")
    assert announced["admin_key"] is None  # the key of ann was there first


def test_the_file_of_a_server_does_not_stop_work_on_the_embedded_store(terminal: Terminal) -> None:
    (terminal.folder / "interlock.toml").write_text('store = "postgresql://db/interlock"\nworkers = 4\n')
    assert terminal("submit", "a.b").code in (0, 3, 4)


@pytest.mark.parametrize(
    "root", ["//evil.example", "/a/", "/a//b", "a", "/../b", "/a?b", "/a b", "/ä", "/a%2fb", "/a\\b"]
)
def test_a_root_path_that_could_lead_elsewhere_is_refused(root: str) -> None:
    with pytest.raises(BadSetting, match="root_path"):
        settings_from({"INTERLOCK_ROOT_PATH": root})


def test_a_bad_setting_is_never_a_traceback(terminal: Terminal) -> None:
    with pytest.raises(BadSetting, match="root_path"):
        settings_from({"INTERLOCK_ROOT_PATH": "/api/x"})
    terminal.use(INTERLOCK_ROOT_PATH="/api/x")
    said = terminal("serve")
    assert (said.code, said.err.endswith("; see `interlock serve --help`\n")) == (2, True), said.err

"""A login: kept for its user alone, after it was checked; used if nothing else says where, and for its own server."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock import Interlock, NoStore
from interlock.service.local_kernel import local_user
from tests.cli.screen import Screen
from tests.cli.terminal import POLICY, Terminal
from tests.harness.server import InterlockServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InterlockServer]:
    """A server with a policy."""
    folder = tmp_path_factory.mktemp("server")
    (folder / "policy.yaml").write_text(POLICY)
    started = InterlockServer(f"sqlite:///{folder}/interlock.db", policy=folder / "policy.yaml").start()
    yield started
    started.close()


@pytest.fixture(scope="module")
def mia(server: InterlockServer) -> str:
    """The key of a person there."""
    return server.create_key("mia", roles="submit,review", groups="finance").key


@pytest.fixture
def logged_in(terminal: Terminal, server: InterlockServer, mia: str) -> Terminal:
    """A terminal whose user is logged in as Mia."""
    assert terminal("login", server.url, stdin=f"{mia}\n").code == 0
    return terminal


def login_file() -> Path:
    return Path(os.environ["XDG_CONFIG_HOME"], "interlock", "login.json")


def test_a_login_is_kept_for_its_user_alone_and_used_by_commands(
    logged_in: Terminal, server: InterlockServer
) -> None:
    assert (login_file().stat().st_mode & 0o777, login_file().parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert [path.name for path in login_file().parent.iterdir()] == ["login.json"]
    found = logged_in("whoami", "--json").json
    assert (found["name"], found["server"], found["store"]) == ("mia", server.url, None)
    assert (found["place_from"], found["key_from"]) == (f"your login ({login_file()})", "your login")
    said = logged_in("whoami").out
    assert "mia (person)" in said
    assert server.url in said
    assert logged_in.submit()["state"] == "APPROVAL"
    assert not (logged_in.folder / ".interlock").exists()


def test_the_key_is_typed_unseen(terminal: Terminal, server: InterlockServer, mia: str) -> None:
    with Screen(terminal.folder, "login", server.url) as screen:
        screen.until(f"key for {server.url}: ")
        screen.type(mia)
        code, _ = screen.end()
        assert (code, mia in screen.text, "you are mia" in screen.text) == (0, False, True)
    assert terminal("whoami", "--json").json["name"] == "mia"


@pytest.mark.parametrize("key", ["il_0000000000000000_wrong", "", "two words"])
def test_a_key_that_is_not_accepted_is_not_kept_and_the_login_before_stays(
    logged_in: Terminal, server: InterlockServer, key: str
) -> None:
    said = logged_in("login", server.url, stdin=f"{key}\n")
    assert said.code in (1, 2)
    assert "interlock key create" in said.err
    assert logged_in("whoami", "--json").json["name"] == "mia"


def test_a_server_that_is_not_there_is_not_kept(terminal: Terminal, mia: str) -> None:
    said = terminal("login", "http://127.0.0.1:9", stdin=mia)
    assert (said.code, login_file().exists()) == (6, False)


def test_without_an_address_it_is_the_server_of_the_environment(
    terminal: Terminal, server: InterlockServer, mia: str
) -> None:
    terminal.use(INTERLOCK_URL=server.url)
    said = terminal("login", "--json", stdin=mia)
    assert said.json == {"name": "mia", "server": server.url, "file": str(login_file())}
    assert mia not in said.out
    assert "INTERLOCK_URL is set and goes before the login" in terminal("login", stdin=mia).err


def test_logout_forgets_it(logged_in: Terminal) -> None:
    assert "logged out" in logged_in("logout").out
    assert not login_file().exists()
    assert logged_in("logout", "--json").json == {"logged_out": False}
    assert "interlock init" in logged_in("whoami").err


def test_options_go_before_the_environment_and_the_environment_before_the_login(
    logged_in: Terminal, server: InterlockServer
) -> None:
    one, two = (f"sqlite:///{logged_in.folder}/{name}.db" for name in ("one", "two"))
    for store in (one, two):
        assert logged_in("init", "--store", store).code == 0

    def place(*words: str) -> tuple[object, ...]:
        found = logged_in("whoami", *words, "--json").json
        return found["server"], found["store"], found["place_from"], found["name"]

    me = f"local:{local_user()}"
    assert place("--store", one) == (None, one, "--store", me)
    logged_in.use(INTERLOCK_STORE=two)
    assert place() == (None, two, "INTERLOCK_STORE", me)
    assert place("--store", one) == (None, one, "--store", me)
    logged_in.forget("INTERLOCK_STORE")
    omar = server.create_key("omar").key
    logged_in.use(INTERLOCK_URL=server.url, INTERLOCK_KEY=omar)
    assert place() == (server.url, None, "INTERLOCK_URL", "omar")
    logged_in.forget("INTERLOCK_URL")
    assert place()[2:] == (f"your login ({login_file()})", "omar")
    assert logged_in("whoami", "--json").json["key_from"] == "INTERLOCK_KEY"


def test_a_login_goes_before_the_store_of_the_folder_and_says_so(
    logged_in: Terminal, server: InterlockServer
) -> None:
    made = logged_in("init")
    assert made.code == 0
    said = logged_in("whoami")
    store = f"{logged_in.folder}/.interlock/interlock.db"
    assert f"the store {store} is not used while you are logged in" in made.err
    assert server.url in said.out
    assert (
        f"the store {store} is not used while you are logged in; use it with --store sqlite:///{store}"
        in (said.err)
    )
    assert logged_in("whoami", "--store", f"sqlite:///{store}", "--json").json["name"] == (
        f"local:{local_user()}"
    )
    logged_in("logout")
    found = logged_in("whoami", "--json").json
    assert (found["store"], found["key_from"]) == ("sqlite:///.interlock/interlock.db", None)
    assert found["place_from"].startswith("this folder")


@pytest.mark.parametrize("named", ["option", "environment"])
def test_the_key_of_a_login_is_sent_to_no_other_server(logged_in: Terminal, named: str) -> None:
    import http.server
    import threading

    heard: list[str | None] = []

    class Listener(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(self.headers.get("Authorization"))
            self.send_error(401)

        def log_message(self, format: str, *_: object) -> None:  # noqa: A002
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Listener) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{other.server_port}"
        words = ("--url", url) if named == "option" else ()
        if named == "environment":
            logged_in.use(INTERLOCK_URL=url)
        assert logged_in("whoami", *words, "--patience", "0s").code == 1
        other.shutdown()
    assert set(heard) == {None}


def test_a_login_that_others_can_read_is_refused_until_it_is_closed(logged_in: Terminal) -> None:
    login_file().chmod(0o644)
    said = logged_in("jobs")
    assert (said.code, f"chmod 600 {login_file()}" in said.err) == (1, True)
    login_file().chmod(0o600)
    assert logged_in("jobs").code == 0


def test_a_login_that_cannot_be_read_says_how_to_write_it_again(
    logged_in: Terminal, server: InterlockServer, mia: str
) -> None:
    login_file().write_text("{")
    assert "`interlock login` writes it again" in logged_in("jobs").err
    assert logged_in("login", server.url, stdin=mia).code == 0
    assert logged_in("jobs").code == 0


def test_programs_drills_and_upkeep_of_a_store_do_not_use_the_login(logged_in: Terminal) -> None:
    with Interlock() as il, pytest.raises(NoStore):
        il.jobs()
    assert (
        logged_in("drill", "approvals", "--people", "2").code == 0
    )  # Mia may not make the keys that it needs
    assert logged_in("init").code == 0
    assert "fences are in epoch" in logged_in("doctor", "--after-restore").out


def test_a_key_that_was_revoked_says_to_log_in_again(terminal: Terminal, server: InterlockServer) -> None:
    made = server.create_key("tom").key
    assert terminal("login", server.url, stdin=made).code == 0
    assert terminal("key", "revoke", "tom", "--store", server.store).code == 0
    said = terminal("jobs")
    assert (said.code, "log in with a valid one: `interlock login`" in said.err) == (1, True)


def test_a_listing_that_goes_on_does_not_name_the_login(logged_in: Terminal, server: InterlockServer) -> None:
    for cents in (1, 2):
        logged_in.submit(cents=cents)
    said = logged_in("jobs", "--limit", "1").out
    assert "there are more: interlock jobs" in said
    assert server.url not in said


def test_an_unencrypted_server_elsewhere_is_warned_of(terminal: Terminal) -> None:
    said = terminal("login", "http://interlock.invalid:1", stdin="")
    assert (said.code, "use https" in said.err) == (2, True)


def test_the_file_is_what_the_page_says(logged_in: Terminal, server: InterlockServer, mia: str) -> None:
    assert json.loads(login_file().read_text()) == {"url": server.url, "key": mia}

"""Who is signed in, and how to be: `interlock sessions`, `interlock session end`, `interlock open`."""

from __future__ import annotations

import asyncio
import webbrowser
from urllib.parse import parse_qs, urlsplit

import pytest

from interlock.rooms.identity.model import Session
from interlock.service.local_kernel import local_user
from interlock.service.service import open_service
from interlock.service.sessions import open_with_link
from interlock.service.settings import NO_FILE, embedded_store, settings_from
from tests.cli.terminal import Terminal


def opened(link: str) -> Session:
    """Sign in with a link on the store of this folder, as the server there would."""
    [token] = parse_qs(urlsplit(link).query)["link"]

    async def sign_in() -> Session:
        async with open_service(settings_from(config=NO_FILE, store=embedded_store())) as service:
            return (await open_with_link(service, token)).session

    return asyncio.run(sign_in())


def test_open_prints_a_link_that_signs_the_local_person_in(terminal: Terminal) -> None:
    link = terminal("open", "--print").out.strip()
    assert link.startswith("http://127.0.0.1:8700/console/sign-in?link=sil_")
    assert opened(link).principal == f"local:{local_user()}"


def test_open_starts_the_browser_with_the_link(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    visited: list[str] = []

    def visit(url: str) -> bool:
        visited.append(url)
        return True

    monkeypatch.setattr(webbrowser, "open", visit)
    said = terminal("open")
    assert said.code == 0
    [link] = visited
    assert "sil_" not in said.out
    assert opened(link).by == "link"


def test_without_a_browser_the_link_is_printed(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    assert "/console/sign-in?link=sil_" in terminal("open").out


def test_without_a_key_url_says_only_where_the_browser_goes(terminal: Terminal) -> None:
    terminal("init")
    link = terminal("open", "--print", "--url", "http://127.0.0.1:8800/").out.strip()
    assert link.startswith("http://127.0.0.1:8800/console/sign-in?link=")
    assert opened(link).principal == f"local:{local_user()}"


def test_an_agent_gets_no_link(terminal: Terminal) -> None:
    key = terminal("key", "create", "bot", "--kind", "agent", "--roles", "admin", "--json").json["key"]
    said = terminal("open", "--print", "--api-key", key, "--json")
    assert (said.code, said.problem["code"]) == (1, "people_only")


def test_sessions_are_listed_and_ended(terminal: Terminal) -> None:
    terminal("init")
    assert "interlock open" in terminal("sessions").out
    session = opened(terminal("open", "--print").out.strip())
    shown = terminal("sessions").out
    assert session.id in shown
    assert "live" in shown
    assert terminal("session", "end", session.id).out == f"{session.id} of {session.principal} has ended\n"
    [listed] = terminal("sessions", "--all", "--json").json["items"]
    assert (listed["session_id"], listed["live"]) == (session.id, False)
    assert terminal("session", "end", "ses_gone").code == 1

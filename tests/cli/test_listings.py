"""The line under a listing that goes on is a command that goes on with it."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Callable

import pytest

from interlock.cli.connection import more
from interlock.wire.fields import Page
from tests.cli.terminal import POLICY, Terminal
from tests.harness.server import InterlockServer


def test_what_there_is_more_of_is_listed_with_the_same_filters(policy_terminal: Terminal) -> None:
    for cents in (1, 2, 3):
        policy_terminal.submit("finance.payment.execute", cents)
    policy_terminal.submit("knowledge.read")
    said = policy_terminal("jobs", "--topic", "finance.payment.execute", "--limit", "2")
    words = said.out.splitlines()[-1].partition("interlock ")[2].split()
    assert words[:5] == ["jobs", "--topic", "finance.payment.execute", "--limit", "2"]
    assert len(policy_terminal(*words, "--json").json["items"]) == 1


LISTINGS = [
    ("jobs",),
    ("approvals",),
    ("audit",),
    ("policy", "snapshots"),
    ("leases", "--live"),
    ("workflows",),
]


@pytest.mark.parametrize("place", ["url", "store"])
@pytest.mark.parametrize("words", LISTINGS, ids=" ".join)
def test_what_there_is_more_of_is_listed_from_the_same_place_by_the_command_as_it_is_printed(
    terminal: Terminal,
    serve: Callable[..., InterlockServer],
    sqlite_url: str,
    words: tuple[str, ...],
    place: str,
) -> None:
    server = serve(sqlite_url)
    key = server.create_key("root", roles="admin,submit,review,operate").key
    terminal.use(INTERLOCK_STORE=sqlite_url)
    for policy in (POLICY, POLICY.replace("quorum: 2", "quorum: 3")):
        terminal("policy", "apply", terminal.file("policy.yaml", policy))
    for name in ("a", "b"):
        terminal.submit()
        terminal("lease", "acquire", name)
        terminal(
            "workflow", "define", name, terminal.file("steps.yaml", "steps: [{id: s, topic: knowledge.read}]")
        )
    terminal.forget("INTERLOCK_STORE")
    where = ("--url", server.url) if place == "url" else ("--store", sqlite_url)

    said = terminal(*words, "--limit", "1", *where, "--api-key", key).out.splitlines()[-1]

    assert key not in said
    again = shlex.split(said.partition("interlock ")[2])
    assert again[-2] == "--cursor"
    assert len(terminal(*again, "--api-key", key, "--json").json["items"]) == 1


def test_what_there_is_more_of_is_listed_without_a_password() -> None:
    args = Namespace(limit=50, store="postgresql://ann:secret@db/interlock")
    assert more(Page(items=(), next_cursor="c"), "interlock jobs", args) == (
        "there are more: interlock jobs --store 'postgresql://ann:…@db/interlock' --cursor c"
    )

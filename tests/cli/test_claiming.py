"""`interlock claim`: one use of a grant from a terminal, or the reason why not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.task_folder import granted, marks
from tests.cli.terminal import Terminal
from tests.cli.test_lost_answers import losing
from tests.harness.server import InterlockServer


def test_a_claim_that_fits_takes_one_use_and_ends_with_zero(terminal: Terminal) -> None:
    grant = granted(terminal, "deploy", "--pin", "env=production", "--uses", "2")["id"]

    said = terminal("claim", "deploy", "--arg", "env=production", "--execution-id", "run-7")

    assert (said.code, said.out) == (0, f"claimed deploy as run-7: use 1 of {grant}, fence 1\n")
    assert terminal("grant", grant, "--json").json["used"] == 1


def test_a_repeat_under_the_same_execution_id_gets_the_same_use(terminal: Terminal) -> None:
    grant = granted(terminal, "deploy", "--uses", "2")["id"]
    first, again = (terminal("claim", "deploy", "--execution-id", "run-7", "--json") for _ in range(2))
    assert first.json == again.json == {
        "claimed": True, "grant_id": grant, "use": 1, "fence": 1, "execution_id": "run-7"
    }  # fmt: skip
    other = terminal("claim", "deploy", "--json").json
    assert (other["use"], other["execution_id"].startswith("exec_")) == (2, True)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--arg", "cents=501"), "pin cents: must be a number of at most 500"),
        (("--args", '{"cents": "5"}'), "pin cents"),
        ((), "the argument is missing"),
        (("--arg", "cents=5", "--signed"), "needs a signed grant"),
        (("--arg", "cents=5", "--grant", "gnt_1"), "there is no grant gnt_1"),
    ],
)
def test_a_claim_that_does_not_fit_ends_with_three_and_says_why(
    terminal: Terminal, words: tuple[str, ...], why: str
) -> None:
    grant = granted(terminal, "refund", "--pin", "cents<=500")["id"]

    said = terminal("claim", "refund", *words)
    told = terminal("claim", "refund", *words, "--json")

    assert (said.code, said.out, why in said.err) == (3, "", True), said.err
    assert (told.code, told.json["claimed"], why in told.json["reason"]) == (3, False, True)
    assert terminal("grant", grant, "--json").json["used"] == 0


def test_a_claim_may_ask_for_whose_grant(terminal: Terminal) -> None:
    ann = terminal.key("ann", "--kind", "person", "--roles", "review,submit", "--groups", "ops")
    granted(terminal, "deploy", "--api-key", ann)
    assert terminal("claim", "deploy", "--group", "finance").code == 3
    assert terminal("claim", "deploy", "--group", "finance", "--group", "ops").code == 0


@pytest.mark.parametrize(
    "words",
    [
        ("--arg", "env"),
        ("--arg", "a=1", "--arg", "a=2"),
        ("--arg", "a=1", "--args", "{}"),
        ("--arg", "a=9007199254740993"),
    ],
)
def test_arguments_that_are_none_are_a_usage_error(terminal: Terminal, words: tuple[str, ...]) -> None:
    granted(terminal, "deploy")
    assert terminal("claim", "deploy", *words).code == 2


def test_an_execution_that_claimed_first_is_resumed_under_its_use(task_terminal: Terminal) -> None:
    grant = granted(task_terminal, "mark")["id"]
    task_terminal.file("shown.json", task_terminal("exec", "--show", "mark").out)
    assert task_terminal("claim", "mark", "--args", "@shown.json", "--execution-id", "run-7").code == 0

    assert task_terminal.process("exec", "--resume", "run-7", "mark").code == 0

    assert marks(task_terminal) == ["ran"]
    assert task_terminal("grant", grant, "--json").json["used"] == 1


def test_a_lost_answer_is_told_with_the_id_that_settles_it(
    terminal: Terminal, serve: Callable[..., InterlockServer], tmp_path: Path
) -> None:
    server = serve(f"sqlite:///{tmp_path}/server.db")
    ada, bot = server.create_key("ada").key, server.create_key("bot", kind="agent", roles="submit").key
    grant = granted(terminal, "deploy", "--uses", "2", "--url", server.url, "--api-key", ada)["id"]
    with losing(server) as url:
        lost = terminal("claim", "deploy", "--url", url, "--api-key", bot, "--patience", "0s")
    told = lost.err.partition("the same command with ")[2].partition(" tells")[0].split()

    again = terminal("claim", "deploy", *told, "--url", server.url, "--api-key", bot)

    assert (lost.code, told[:1]) == (6, ["--execution-id"]), lost.err
    assert (again.code, f"use 1 of {grant}" in again.out) == (0, True)

"""What a script can branch on: each exit code, from a command that really ends that way."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from interlock.cli.exits import Exit, exit_of, exit_of_state
from interlock.sdk import outcomes
from interlock.wire.problem import Problem
from tests.cli.terminal import HANG_SECONDS, Terminal
from tests.harness.server import InterlockServer, clean_env


def test_what_may_run_ends_with_zero(policy_terminal: Terminal) -> None:
    assert policy_terminal("submit", "knowledge.read").code == 0


def test_an_error_ends_with_one_and_says_the_next_step(policy_terminal: Terminal) -> None:
    said = policy_terminal("job", "job_0000")
    assert said.code == 1
    assert "check the id" in said.err
    assert said.out == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("limit", "set", "a b", "1"), "scope must be 1 to 200 letters"),
        (("jobs", "--cursor", "nonsense"), "cursor is not one that this list returned"),
        (("lease", "acquire", ""), "resource must not be empty"),
        (("webhook", "add", "nonsense"), "url must begin with https://"),
        (
            ("webhook", "add", "https://example.com/hook", "--type", "approval.granted"),
            "types: no event has the type 'approval.granted'; use approval.* or one of approval.approved,",
        ),
        (
            ("events", "--type", "payment.*"),
            "types: no event has the type 'payment.*'; use approval.*, conflict",
        ),
    ],
)
def test_a_refused_value_is_named_as_its_sender_knows_it(
    policy_terminal: Terminal, words: tuple[str, ...], said: str
) -> None:
    ended = policy_terminal(*words)
    assert (ended.code, ended.err.startswith(f"interlock: {said}")) == (1, True), ended.err


@pytest.mark.parametrize(
    "url", ["ftp://nowhere", "http://[::1", "http://127.0.0.1:99999", "localhost:8700", "http://a..b"]
)
def test_an_address_that_is_none_is_wrong_usage_and_no_traceback(terminal: Terminal, url: str) -> None:
    for words in (("jobs",), ("worker", "--exec", "true"), ("drill", "admission")):
        said = terminal(*words, "--url", url)
        assert (said.code, "is not the address of a server" in said.err) == (2, True), words


def test_wrong_usage_ends_with_two_and_names_the_help(policy_terminal: Terminal) -> None:
    said = policy_terminal("submit")
    assert said.code == 2
    assert "interlock submit --help" in said.err


def test_what_policy_denies_ends_with_three_and_names_the_kept_job(policy_terminal: Terminal) -> None:
    said = policy_terminal("submit", "server.delete")
    assert said.code == 3
    assert "job_" in said.err


def test_what_a_person_rejected_ends_with_three(policy_terminal: Terminal) -> None:
    job = policy_terminal.submit("finance.payment.execute", 500, "--key", "invoice-7")
    assert policy_terminal("reject", job["id"], "--reason", "wrong amount").code == 0
    said = policy_terminal(
        "submit", "finance.payment.execute", "--payload", '{"amount_cents": 500}', "--key", "invoice-7",
        "--wait", "1m",
    )  # fmt: skip
    assert said.code == 3
    assert "wrong amount" in said.out


def test_what_waits_for_people_ends_with_four(policy_terminal: Terminal) -> None:
    said = policy_terminal(
        "submit", "finance.payment.execute", "--payload", '{"amount_cents": 500}', "--wait", "1s"
    )
    assert said.code == 4
    assert "waiting for 1 approval" in said.out


def test_what_was_approved_meanwhile_ends_with_zero(policy_terminal: Terminal) -> None:
    job = policy_terminal.submit("finance.payment.execute", 500, "--key", "invoice-8")
    assert policy_terminal("approve", job["id"]).code == 0
    said = policy_terminal(
        "submit", "finance.payment.execute", "--payload", '{"amount_cents": 500}', "--key", "invoice-8",
        "--wait", "1m",
    )  # fmt: skip
    assert said.code == 0
    assert "approved by" in said.out


def test_what_may_still_be_withdrawn_ends_with_four(policy_terminal: Terminal) -> None:
    words = ("submit", "deploy.service", "--key", "release-9")
    job = policy_terminal(*words, "--json").json
    assert policy_terminal("approve", job["id"]).code == 0
    said = policy_terminal(*words, "--wait", "1s")
    assert said.code == 4
    assert "unless the approval is withdrawn; approved by" in said.out


def test_a_used_up_limit_ends_with_five(policy_terminal: Terminal) -> None:
    assert policy_terminal("submit", "customer.notify").code == 0
    for words in ((), ("--patience", "0s")):
        said = policy_terminal("submit", "customer.notify", *words)
        assert said.code == 5
        assert "mail-slowly" in said.err
        assert "trying again" not in said.err
        assert "; try again in 1d" in said.err or "; try again in 23h" in said.err


def test_a_service_out_of_reach_ends_with_six_and_asks_whether_it_runs(terminal: Terminal) -> None:
    said = terminal("jobs", "--url", "http://127.0.0.1:1", "--patience", "0s")
    assert said.code == 6
    assert "Is `interlock serve` running" in said.err


def test_a_rule_that_cannot_be_evaluated_denies_and_does_not_blame_the_service(
    policy_terminal: Terminal,
) -> None:
    rule = "{id: a, when: {topic: a}, if: payload.b.c > 1, decision: allow}"
    policy_terminal(
        "policy", "apply", policy_terminal.file("broken.yaml", f"version: v1\nrules:\n  - {rule}\n")
    )
    ended = policy_terminal("submit", "a", "--patience", "0s")
    assert ended.code == 3
    assert "there is no field payload.b; send it, or have the rule test it with has() first" in ended.err
    assert "doctor" not in ended.err
    assert "serve" not in ended.err


def test_a_store_that_cannot_be_opened_ends_with_six(terminal: Terminal) -> None:
    for store, told in (
        ("sqlite:////proc/nowhere/interlock.db", "/proc/nowhere"),
        ("postgresql://nobody@127.0.0.1:1/x", "nothing listens for PostgreSQL at x at 127.0.0.1:1"),
    ):
        said = terminal("init", "--store", store)
        assert said.code == 6
        assert told in said.err


def test_why_a_command_takes_a_while_is_said_once(terminal: Terminal) -> None:
    said = terminal("jobs", "--url", "http://127.0.0.1:1", "--patience", "3s")
    first, last = said.err.splitlines()
    assert (said.code, first.endswith("; trying again"), last.startswith("interlock: ")) == (6, True, True)


def test_patience_lasts_until_a_server_is_there(
    policy_terminal: Terminal, serve: Callable[..., InterlockServer]
) -> None:
    key = policy_terminal.key("ann", "--kind", "person", "--roles", "submit")
    server = serve(f"sqlite:///{policy_terminal.folder}/.interlock/interlock.db")
    server.terminate()
    asked = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "interlock",
            "jobs",
            "--url",
            server.url,
            "--api-key",
            key,
            "--patience",
            "5m",
        ],
        cwd=policy_terminal.folder,
        env=clean_env(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(6)  # by its attempts, or by the breaker, a program's call gives up well before
    server.start()
    said, heard = asked.communicate(timeout=HANG_SECONDS)
    assert (asked.returncode, "no jobs yet" in said) == (0, True), heard


def test_every_outcome_of_the_sdk_has_an_exit_code_of_its_class() -> None:
    expected = {
        outcomes.Denied: Exit.DENIED,
        outcomes.Rejected: Exit.DENIED,
        outcomes.Expired: Exit.DENIED,
        outcomes.Busy: Exit.BUSY,
        outcomes.Full: Exit.BUSY,
        outcomes.Unavailable: Exit.UNAVAILABLE,
        outcomes.Ambiguous: Exit.UNAVAILABLE,
    }
    problem = Problem(status=409, code="conflict")
    for kind in outcomes.InterlockError.__subclasses__():
        if kind is outcomes.StillPending:
            outcome = outcomes.StillPending("job_1", state="APPROVAL", resume="")
            assert exit_of(outcome) is Exit.WAITING
        elif kind is outcomes.AlreadyDone:
            assert exit_of(outcomes.AlreadyDone("job_1", "pay", None)) is Exit.ERROR
        else:
            assert exit_of(kind(problem)) is expected.get(kind, Exit.ERROR)


def test_only_a_state_that_may_run_ends_with_zero() -> None:
    assert {state for state in STATES if exit_of_state(state) is Exit.DONE} == {
        "PENDING",
        "RUNNING",
        "SUCCEEDED",
    }
    assert exit_of_state("SOMETHING_NEW") is Exit.WAITING


STATES = ("APPROVAL", "PENDING", "RUNNING", "SUCCEEDED", "FAILED", "DENIED", "CANCELLED", "EXPIRED")


@pytest.fixture
def stranger() -> Iterator[str]:
    """The address of a server that is not Interlock."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"items": "many"}' if "jobs" in self.path else b"<html>hello</html>")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("words", [("jobs",), ("approvals",), ("job", "job_1"), ("policy", "show")])
def test_an_answer_of_something_else_is_said_in_one_line(
    terminal: Terminal, stranger: str, words: tuple[str, ...]
) -> None:
    said = terminal(*words, "--url", stranger, "--patience", "0s")
    assert said.code == 1
    assert said.err.count("\n") == 1
    assert "versions that know each other" in said.err


def test_a_missing_key_and_a_wrong_one_are_told_apart(
    serve: Callable[..., InterlockServer], terminal: Terminal
) -> None:
    url = serve("memory:").url
    missing, wrong = terminal("jobs", "--url", url), terminal("jobs", "--url", url, "--api-key", "il_wrong")
    assert (missing.code, missing.err.startswith("interlock: no key was sent; pass one with")) == (1, True)
    assert (wrong.code, wrong.err.startswith("interlock: the key is unknown or revoked; pass one")) == (
        1,
        True,
    )

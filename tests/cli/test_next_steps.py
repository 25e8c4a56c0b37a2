"""The next step of a problem as the command line words it: a command that does what the operation does."""

from __future__ import annotations

import re
import shlex

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from interlock.api.problem import routed
from interlock.cli.connection import COMMANDS, NEEDING, in_shell
from interlock.sdk.flow import Request, Response
from interlock.wire.problem import NextStep
from tests.cli.terminal import Terminal
from tests.harness.next_steps import named_steps
from tests.sdk.scripted_server import serving
from tests.sdk.virtual_time import problem, success

SIGNER = Ed25519PrivateKey.generate()

# What only the caller knows stands in the command as a word in capitals.
GIVEN = {
    "FILE": "policy.yaml",
    "KEYFILE": "key",
    "PAYLOAD": '{"n": 1}',
    "PUBLIC_KEY": SIGNER.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode(),
    "TEXT": "seen",
    "TOPIC": "pay",
    "committed|not_committed": "committed",
}


# What some commands ask for first.
BEFORE = {
    "/api/v1/api-keys": success(items=[], next_cursor=None),
    "/api/v1/grants/terms": success(tenant="t", approver="ann", nonce="n", now="2026-11-18T13:00:00Z"),
    "/api/v1/jobs/job_id_1": success(id="job_id_1", state="PENDING", job_hash="sha256:0", payload={}),
}


def answered(request: Request) -> Response:
    return BEFORE.get(request.path, problem(404, "not_found"))


@pytest.mark.parametrize("place", named_steps())
def test_the_command_that_is_worded_asks_for_the_route_of_the_operation(
    place: str, terminal: Terminal
) -> None:
    step = routed(named_steps()[place])
    worded = re.fullmatch(r"; next: `interlock ([^`]+)`", in_shell("", step))
    assert worded
    terminal.file("policy.yaml", "version: v1\nrules: []\n")
    terminal.file("key", SIGNER.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode())
    words = [GIVEN.get(word, word) for word in shlex.split(worded[1])]
    with serving(answered) as server:
        said = terminal(*words, "--url", server.url, "--api-key", "il_secret", "--patience", "0s")
    asked = [(request.method, request.path) for request in server.received]
    assert (step.method, step.path.partition("?")[0]) in asked, said


def test_no_command_is_kept_for_an_operation_that_nobody_names() -> None:
    steps = named_steps().values()
    assert set(COMMANDS) == {step.operation for step in steps}
    assert set(NEEDING) <= {(step.operation, step.needs) for step in steps}


def test_a_refusal_ends_with_the_command_and_its_document_with_the_operation(
    policy_terminal: Terminal,
) -> None:
    job = policy_terminal.submit("knowledge.read")["id"]
    told, written = policy_terminal("retry", job), policy_terminal("retry", job, "--json")
    assert told.err.endswith(f"; next: `interlock job {job}`\n"), told
    assert written.problem["next"]["operation"] == "get_job"
    assert "interlock" not in written.problem["detail"]


def test_what_is_filled_in_is_quoted_for_the_shell() -> None:
    step = NextStep(
        operation="get_effect", method="GET", path="/", arguments={"action_id": "a b;rm -rf $HOME"}
    )
    assert in_shell("no", step) == "no; next: `interlock effect show 'a b;rm -rf $HOME'`"


def test_a_step_of_a_newer_service_is_worded_as_its_route() -> None:
    newer = NextStep(operation="dance", method="POST", path="/api/v1/dances", arguments={})
    assert in_shell("no", newer) == "no; next: POST /api/v1/dances"
    assert in_shell("no", None) == "no"
    less = NextStep(operation="get_job", method="GET", path="/api/v1/jobs/{job_id}", arguments={})
    assert in_shell("no", less) == "no; next: `interlock job JOB_ID`"

"""`interlock effect begin|commit|fail`: an effect from a shell, whose exit code says whether to act."""

from __future__ import annotations

from typing import Any

import pytest

from interlock import Interlock
from tests.cli.terminal import Said, Terminal

REQUEST = '{"txn": "4711", "cents": 1200}'


def begin(terminal: Terminal, *words: str, action: str = "refund:4711") -> Said:
    return terminal("effect", "begin", action, "--request", REQUEST, "--patience", "0s", *words, "--json")


def grant_of(terminal: Terminal, *words: str) -> Any:
    said = terminal("grant", "finance.refund", *words, "--json")
    assert said.code == 0, said.err
    return said.json


def uses(terminal: Terminal, grant: Any) -> int:
    return terminal("grant", grant["id"], "--json").json["used"]


def test_only_the_first_begin_ends_with_0(terminal: Terminal) -> None:
    first = begin(terminal)
    during = begin(terminal)
    committed = terminal("effect", "commit", "refund:4711", "--fence", "1", "--result", '{"receipt": "r1"}')
    after = begin(terminal)

    assert (first.code, first.json["state"], first.json["fence"]) == (0, "IN_PROGRESS", 1)
    assert (during.code, during.problem["code"]) == (5, "effect_in_progress")
    assert committed.out == "refund:4711 is COMMITTED; a repeat returns its result and does nothing\n"
    assert (after.code, after.json["replayed"], after.json["result"]) == (3, True, {"receipt": "r1"})


def test_begin_tells_a_person_how_to_go_on(terminal: Terminal) -> None:
    begun = terminal("effect", "begin", "refund 1", "--request", REQUEST)
    assert "ilk_" in begun.out
    assert "interlock effect commit 'refund 1' --fence 1" in begun.out
    assert terminal("effect", "commit", "refund 1", "--fence", "1").code == 0
    again = terminal("effect", "begin", "refund 1", "--request", REQUEST)
    assert again.code == 3
    assert "done before" in again.out


def test_a_failure_is_safe_to_retry_only_if_the_caller_says_so(terminal: Terminal) -> None:
    begin(terminal, action="a")
    safe = terminal("effect", "fail", "a", "--fence", "1", "--error", "declined", "--safe-to-retry")
    begin(terminal, action="b")
    unsure = terminal("effect", "fail", "b", "--fence", "1", "--error", "timed out")

    assert safe.out == "a is FAILED; it may be begun again\n"
    assert "interlock effect resolve b" in unsure.out
    assert begin(terminal, action="a").json["fence"] == 2
    refused = begin(terminal, action="b")
    assert (refused.code, refused.problem["code"]) == (6, "effect_ambiguous")


def test_a_late_attempt_cannot_settle_what_another_does(terminal: Terminal) -> None:
    begin(terminal)
    terminal("effect", "fail", "refund:4711", "--fence", "1", "--error", "declined", "--safe-to-retry")
    begin(terminal)
    late = terminal("effect", "commit", "refund:4711", "--fence", "1", "--json")
    assert (late.code, late.problem["code"]) == (1, "fence_stale")
    told = terminal("effect", "commit", "refund:4711", "--fence", "1")
    assert "`interlock effect resolve refund:4711 committed|not_committed --evidence TEXT`" in told.err


def test_a_use_of_a_grant_is_taken_if_and_only_if_the_effect_begins(terminal: Terminal) -> None:
    terminal("touch", "--target", "account:7", "--version", "v2")
    grant = grant_of(terminal, "--pin", "cents<=5000")
    moved = begin(terminal, "--grant", "finance.refund", "--target", "account:7", "--version", "v1")
    assert (moved.code, moved.problem["code"], uses(terminal, grant)) == (1, "superseded", 0)

    begun = begin(terminal, "--grant", "finance.refund", "--target", "account:7", "--version", "v2")
    assert (begun.code, begun.json["grant"]["id"], uses(terminal, grant)) == (0, grant["id"], 1)

    other = begin(terminal, "--grant", "finance.refund", action="refund:4712")
    assert (other.code, other.problem["code"]) == (3, "not_claimed")


def test_the_pins_are_held_against_the_request_or_what_is_said_instead(terminal: Terminal) -> None:
    grant_of(terminal, "--pin", "cents<=1000")
    over = begin(terminal, "--grant", "finance.refund")
    assert (over.code, "must be a number of at most 1000" in over.problem["detail"]) == (3, True)
    within = begin(terminal, "--grant", "finance.refund", "--grant-args", '{"cents": 900}')
    assert within.code == 0, within.err


def test_a_grant_can_be_named_and_asked_to_be_signed(terminal: Terminal) -> None:
    oldest, named = grant_of(terminal), grant_of(terminal)
    unsigned = begin(terminal, "--grant", "finance.refund", "--signed")
    assert (unsigned.code, "signed" in unsigned.problem["detail"]) == (3, True)
    begun = begin(terminal, "--grant", "finance.refund", "--grant-id", named["id"])
    assert begun.json["grant"]["id"] == named["id"]
    assert uses(terminal, oldest) == 0


def test_an_effect_under_a_lease_needs_its_current_fence(terminal: Terminal) -> None:
    words = ("lease", "acquire", "account:7", "--session", "night", "--json")
    lease = terminal(*words).json
    named = ("--lease", lease["lease_id"], "--session", "night", "--fence")
    stale = begin(terminal, *named, str(lease["fence"] + 1))
    assert (stale.code, stale.problem["code"]) == (1, "fence_stale")
    begun = begin(terminal, *named, str(lease["fence"]))
    assert (begun.code, begun.json["lease"]["resource"]) == (0, "account:7")


def test_an_effect_for_a_job_needs_the_job_to_be_held(policy_terminal: Terminal) -> None:
    job = policy_terminal.submit("knowledge.read")
    loose = begin(policy_terminal, "--job", job["id"])
    assert (loose.code, loose.problem["code"]) == (1, "fence_stale")
    with Interlock() as il:
        held = il.claim_job(job["id"])
    begun = begin(policy_terminal, "--permit", held.permit)
    assert (begun.code, begun.json["job_id"]) == (0, job["id"])


def test_a_program_finds_what_a_shell_did(terminal: Terminal) -> None:
    begin(terminal)
    terminal("effect", "commit", "refund:4711", "--fence", "1", "--result", "7")
    with Interlock() as il, il.effect_scope("refund:4711", request={"txn": "4711", "cents": 1200}) as effect:
        assert (effect.replayed, effect.result) == (True, 7)


def test_a_hash_of_ones_own_names_the_request(terminal: Terminal) -> None:
    words = ("effect", "begin", "refund:1", "--request-hash")
    assert terminal(*words, "abc", "--json").json["request_hash"] == "abc"
    assert terminal(*words, "xyz", "--json").problem["code"] == "action_id_reused"
    assert terminal("effect", "begin", "refund:2", "--request-hash", "", "--json").code != 0


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--request", "{}", "--request-hash", "abc"),
        ("--request", "{}", "--lease", "lse_1"),
        ("--request", "{}", "--fence", "1"),
        ("--request", "{}", "--session", "night"),
        ("--request", "{}", "--target", "doc:1"),
        ("--request", "{}", "--version", "v1"),
        ("--request", "{}", "--signed"),
        ("--request", "{}", "--grant-id", "gnt_1"),
        ("--request", "{}", "--grant-args", "{}"),
    ],
)
def test_half_a_condition_is_a_usage_error_and_begins_nothing(
    terminal: Terminal, words: tuple[str, ...]
) -> None:
    terminal("init", "--bare")
    assert terminal("effect", "begin", "refund:1", *words).code == 2
    assert terminal("effects", "--json").json["items"] == []

"""Deciding at a terminal, one request after another: about what is on the screen, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.cli.screen import END_OF_INPUT, INTERRUPT, Screen
from tests.cli.terminal import POLICY, Terminal

ASKING = "approve? [y, n, e, s, q, ?] "


@pytest.fixture
def noor(policy_terminal: Terminal) -> str:
    """The key of a person of finance."""
    return policy_terminal.key("noor", "--kind", "person", "--roles", "review", "--groups", "finance")


@pytest.fixture
def review(policy_terminal: Terminal, noor: str) -> Callable[..., Screen]:
    """Starts `interlock review` as Noor, at a terminal."""

    def start(**env: str) -> Screen:
        return Screen(policy_terminal.folder, "review", env={"INTERLOCK_KEY": noor, **env})

    return start


def approval(terminal: Terminal, job_id: str) -> dict[str, object]:
    """The approval of a job as it is stored."""
    return terminal("approval", job_id, "--json").json["approval"]


def test_each_answer_decides_the_request_that_is_shown_and_the_end_counts_them(
    policy_terminal: Terminal, review: Callable[..., Screen]
) -> None:
    jobs = [policy_terminal.submit(cents=cents) for cents in (101, 102, 103)]
    with review() as screen:
        shown = screen.until(ASKING)
        assert jobs[0]["id"] in shown
        assert '"amount_cents": 101' in shown
        assert "interlock approve" not in shown
        screen.type("?")
        assert "reject it; asks for a reason" in screen.until(ASKING)
        screen.type("y")
        screen.until("reason (may be empty): ")
        screen.type("as agreed")
        assert f"{jobs[0]['id']} is approved" in screen.until('"amount_cents": 102')
        screen.until(ASKING)
        screen.type("n")
        screen.until("reason (the submitter sees it): ")
        screen.type("")
        assert "a rejection needs a reason; nothing was sent" in screen.until(ASKING)
        screen.type("n")
        screen.until("sees it): ")
        screen.type("too much")
        screen.until('"amount_cents": 103')
        screen.until(ASKING)
        screen.type("s")
        code, end = screen.end()
    assert (code, end.splitlines()[-2:]) == (
        0,
        ["nothing else waits for your decision", "1 approved, 1 rejected, 1 skipped"],
    )
    approved, rejected, skipped = (approval(policy_terminal, job["id"]) for job in jobs)
    assert (approved["state"], approved["decided_by"]) == ("approved", "noor")
    assert approved["votes"] == [{**approved["votes"][0], "reason": "as agreed"}]  # type: ignore[index]
    assert (rejected["state"], rejected["reason"]) == ("rejected", "too much")
    assert skipped["state"] == "pending"


@pytest.mark.parametrize("answer", ["y", "n"])
def test_what_was_edited_meanwhile_is_shown_again_and_not_decided(
    policy_terminal: Terminal, review: Callable[..., Screen], answer: str
) -> None:
    job = policy_terminal.submit(cents=101)
    with review() as screen:
        screen.until(ASKING)
        screen.type(answer)
        screen.until("): ")
        edit = ("edit", job["id"], "--payload", '{"amount_cents": 9999}', "--reason", "more")
        assert policy_terminal(*edit).code == 0
        screen.type("fine")
        again = screen.until(ASKING)
        assert "it changed meanwhile, so nothing was sent" in again
        assert '"amount_cents": 9999' in again
        assert approval(policy_terminal, job["id"])["state"] == "pending"
        assert approval(policy_terminal, job["id"])["votes"] == []
        screen.type(answer)
        screen.until("): ")
        screen.type("fine")
        assert screen.end()[0] == 0
    assert approval(policy_terminal, job["id"])["state"] == {"y": "approved", "n": "rejected"}[answer]


@pytest.mark.parametrize("answer", ["y", "n"])
def test_the_hash_that_was_shown_goes_with_the_answer(
    policy_terminal: Terminal, noor: str, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    """An edit between the last look and the answer is refused by the service, and shown again."""
    from interlock import Interlock
    from interlock.cli.review import _Left, _Sitting  # pyright: ignore[reportPrivateUsage]

    job = policy_terminal.submit(cents=101)
    monkeypatch.setattr("builtins.input", lambda _: "fine")
    with Interlock(key=noor) as il, Interlock() as other:
        sitting = _Sitting(il)
        sitting._show(job["id"])  # pyright: ignore[reportPrivateUsage]
        look = il.get_approval

        def edited_after_the_look(job_id: str) -> object:
            found = look(job_id)
            monkeypatch.setattr(il, "get_approval", look)
            other.edit(job_id, {"amount_cents": 9999}, reason="more")
            return found

        monkeypatch.setattr(il, "get_approval", edited_after_the_look)
        sitting._answer(answer)  # pyright: ignore[reportPrivateUsage]
        assert sitting._request.payload == {"amount_cents": 9999}  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(_Left):
            sitting._skip()  # pyright: ignore[reportPrivateUsage]
    stored = approval(policy_terminal, job["id"])
    assert (stored["state"], stored["votes"]) == ("pending", [])


def test_a_rule_that_requires_the_hash_gets_it(
    policy_terminal: Terminal, review: Callable[..., Screen]
) -> None:
    strict = POLICY.replace("approval: {self_approval: true}", "approval: {require_hash: true}")
    policy_terminal("policy", "apply", policy_terminal.file("policy.yaml", strict))
    job = policy_terminal.submit()
    with review() as screen:
        screen.until(ASKING)
        screen.type("y")
        screen.until("): ")
        screen.press("\nq\n")
        assert "1 approved" in screen.end()[1]
    assert approval(policy_terminal, job["id"])["state"] == "approved"


def test_a_comment_that_came_meanwhile_is_shown_before_anything_is_decided(
    policy_terminal: Terminal, review: Callable[..., Screen]
) -> None:
    job = policy_terminal.submit()
    with review() as screen:
        screen.until(ASKING)
        screen.type("y")
        screen.until("): ")
        policy_terminal("comment", job["id"], "stop, wrong account")
        screen.type("")
        assert "stop, wrong account" in screen.until(ASKING)
        screen.type("q")
        assert "0 approved, 0 rejected, 0 skipped" in screen.end()[1]
    assert approval(policy_terminal, job["id"])["state"] == "pending"


def test_a_request_that_another_reviewer_decided_is_left(
    policy_terminal: Terminal, review: Callable[..., Screen]
) -> None:
    job = policy_terminal.submit()
    with review() as screen:
        screen.until(ASKING)
        screen.type("y")
        screen.until("): ")
        policy_terminal("reject", job["id"], "--reason", "no")
        screen.type("")
        code, end = screen.end()
    assert (code, "it is rejected" in end, "0 approved" in end) == (0, True, True)
    assert approval(policy_terminal, job["id"])["state"] == "rejected"


def test_an_edit_is_made_in_the_editor_and_shown_again(
    policy_terminal: Terminal, review: Callable[..., Screen]
) -> None:
    relaxed = POLICY.replace("groups: [finance]", "groups: [finance], self_approval: true")
    policy_terminal("policy", "apply", policy_terminal.file("policy.yaml", relaxed))
    job = policy_terminal.submit(cents=101)
    with review(EDITOR="sed -i s/101/77/") as screen:
        screen.until(ASKING)
        screen.type("e")
        screen.until("reason (kept with the old version): ")
        screen.type("as agreed by phone")
        again = screen.until(ASKING)
        assert '"amount_cents": 77' in again
        assert "as agreed by phone" in again
        screen.type("y")
        screen.until("): ")
        screen.type("")
        assert "1 approved, 0 rejected, 0 skipped, 1 edited" in screen.end()[1]
    stored = policy_terminal("approval", job["id"], "--json").json
    assert (stored["payload"], stored["state"]) == ({"amount_cents": 77}, "approved")


def test_who_edited_a_request_may_not_decide_it_where_a_submitter_may_not(
    policy_terminal: Terminal, review: Callable[..., Screen]
) -> None:
    job = policy_terminal.submit(cents=20_000)
    with review(EDITOR="sed -i s/20000/30000/") as screen:
        screen.until(ASKING)
        screen.type("e")
        screen.until("): ")
        screen.type("as agreed")
        code, end = screen.end()
    assert (code, "another reviewer must decide it now" in end) == (0, True)
    assert approval(policy_terminal, job["id"])["votes"] == []


def test_text_that_is_not_json_is_kept_for_another_try(
    policy_terminal: Terminal, review: Callable[..., Screen]
) -> None:
    job = policy_terminal.submit(cents=101)
    editor = policy_terminal.folder / "editor"
    # The first time it breaks the text; the second time it mends what it finds.
    editor.write_text(
        "#!/bin/sh\nif grep -q 101 $1; then printf '{\"a\": 55' > $1; else printf '}' >> $1; fi\n"
    )
    editor.chmod(0o755)
    with review(EDITOR=str(editor)) as screen:
        screen.until(ASKING)
        screen.type("e")
        assert "`e` goes on with your text" in screen.until(ASKING)
        screen.type("e")
        screen.until("): ")
        screen.type("as agreed")
        screen.until('"a": 55')
        screen.press(INTERRUPT)
        screen.end()
    assert policy_terminal("job", job["id"], "--json").json["payload"] == {"a": 55}


@pytest.mark.parametrize(
    ("editor", "said"),
    [
        ("true", "the payload is the same"),
        ("false", "the editor ended with 1"),
        ("/nowhere/ed", "set EDITOR"),
    ],
)
def test_an_editor_that_changes_nothing_changes_nothing(
    policy_terminal: Terminal, review: Callable[..., Screen], editor: str, said: str
) -> None:
    job = policy_terminal.submit()
    with review(EDITOR=editor) as screen:
        screen.until(ASKING)
        screen.type("e")
        assert said in screen.until(ASKING)
        screen.type("q")
        assert screen.end()[0] == 0
    assert (
        "revisions" not in json.dumps(policy_terminal("job", job["id"], "--json").json)
        or not (policy_terminal("job", job["id"], "--json").json["revisions"])
    )


@pytest.mark.parametrize("keys", [END_OF_INPUT, INTERRUPT, "q\n"], ids=["end", "interrupt", "quit"])
def test_leaving_decides_nothing_and_says_what_was_done(
    policy_terminal: Terminal, review: Callable[..., Screen], keys: str
) -> None:
    job = policy_terminal.submit()
    with review() as screen:
        screen.until(ASKING)
        screen.press(keys)
        code, end = screen.end()
    assert (code, "0 approved, 0 rejected, 0 skipped" in end, "Traceback" in end) == (0, True, False)
    assert approval(policy_terminal, job["id"])["state"] == "pending"


def test_an_empty_inbox_needs_no_answer(review: Callable[..., Screen]) -> None:
    with review() as screen:
        code, end = screen.end()
    assert (code, "nothing waits for your decision" in end) == (0, True)


def test_a_person_who_is_alone_is_told_that_another_person_must_decide(terminal: Terminal) -> None:
    policy = terminal.file("policy.yaml", "version: v1\ndefault: require_human\n")
    assert terminal("policy", "apply", policy).code == 0
    job = terminal.submit()
    with Screen(terminal.folder, "review") as screen:
        code, end = screen.end()
    assert (code, f"your own request {job['id']} waits for another person" in end) == (0, True)
    assert "interlock key create NAME --kind person --roles review" in end


@pytest.mark.parametrize("words", [("review",), ("review", "--json")])
def test_without_a_terminal_it_names_the_commands_to_use(
    policy_terminal: Terminal, words: tuple[str, ...]
) -> None:
    policy_terminal.submit()
    said = policy_terminal(*words)
    assert (said.code, said.out) == (2, "")
    assert "`interlock approvals --mine`" in said.err
    assert "`interlock approve`" in said.err

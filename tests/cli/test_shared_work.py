"""`interlock effects`, `touch`, `target`, `conflicts` and the git hook, as a person uses them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from interlock import Interlock
from tests.cli.terminal import Terminal
from tests.harness.server import clean_env


@pytest.fixture
def repository(terminal: Terminal) -> Terminal:
    """A terminal in a git repository called `billing` with one commit."""
    folder = terminal.folder / "billing"
    folder.mkdir()
    terminal.folder = folder
    terminal._patch.chdir(folder)
    git(folder, "init", "-q")
    (folder / "invoice.py").write_text("one\n")
    git(folder, "add", "invoice.py")
    git(folder, "commit", "-q", "-m", "first")
    return terminal


def git(folder: Path, *words: str, **extra: str) -> str:
    who = ("-c", "user.name=mia", "-c", "user.email=mia@example.com", "-c", "commit.gpgsign=false")
    path = {"PATH": f"{Path(sys.executable).parent}:{clean_env()['PATH']}", **extra}
    done = subprocess.run(
        ["git", *who, *words], cwd=folder, capture_output=True, text=True, env=clean_env(path), check=True
    )
    return done.stdout.strip()


def embedded(terminal: Terminal) -> Interlock:
    return Interlock(store=f"sqlite:///{terminal.folder}/.interlock/interlock.db")


def test_a_touched_file_has_the_key_and_version_that_git_gives_it(repository: Terminal) -> None:
    (repository.folder / "invoice.py").write_text("two\n")
    said = repository("touch", "invoice.py", "--summary", "two", "--json")
    assert said.code == 0, said.err
    (touched,) = said.json["items"]
    assert touched["key"] == "repo:billing/invoice.py"
    assert touched["version"] == git(repository.folder, "hash-object", "invoice.py")


def test_a_file_outside_of_git_is_named_by_its_path_and_digest(terminal: Terminal) -> None:
    terminal.file("note.txt", "hello")
    (touched,) = terminal("touch", "note.txt", "--json").json["items"]
    assert touched["key"] == f"file:{terminal.folder / 'note.txt'}"
    assert touched["version"].startswith("sha256:2cf24dba")


def test_a_file_that_is_not_there_is_said_to_be_reported_as_deleted(terminal: Terminal) -> None:
    said = terminal("touch", "mispelt.txt")
    assert (said.code, "mispelt.txt is reported as deleted\n" in said.out) == (0, True), said.out


def test_any_target_can_be_touched_by_key(terminal: Terminal) -> None:
    said = terminal("touch", "--target", "crm:customer/4711", "--version", "17")
    assert (said.code, said.out) == (0, "reported 1 change\n  crm:customer/4711 is at version 17\n")
    assert terminal("target", "crm:customer/4711", "--json").json["version"] == "17"
    assert terminal("touch", "--target", "crm:customer/4711").code == 2
    assert terminal("touch").code == 2
    misplaced = terminal("touch", "note.txt", "--version", "17")
    assert (misplaced.code, "--target" in misplaced.err) == (2, True)


def test_the_git_hooks_report_what_commits_and_merges_change(repository: Terminal) -> None:
    folder = repository.folder
    assert repository("hook", "git", "--install").code == 0
    (folder / "invoice.py").write_text("two\n")
    (folder / "new file.py").write_text("new\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "second")
    with embedded(repository) as il:
        seen = {target.key: target.version for target in il.targets().items}
    assert seen == {
        "repo:billing/invoice.py": git(folder, "rev-parse", "HEAD:invoice.py"),
        "repo:billing/new file.py": git(folder, "rev-parse", "HEAD:new file.py"),
    }
    git(folder, "checkout", "-q", "-b", "side", "HEAD~1")
    (folder / "side.py").write_text("side\n")
    git(folder, "add", ".")
    git(folder, "-c", "core.hooksPath=/dev/null", "commit", "-q", "-m", "aside")
    git(folder, "checkout", "-q", "-")
    git(folder, "merge", "-q", "--no-edit", "side")
    with embedded(repository) as il:
        assert il.get_target("repo:billing/side.py").version == git(folder, "rev-parse", "HEAD:side.py")


def test_a_name_that_is_no_text_hides_no_change(repository: Terminal) -> None:
    for name in ("caf\udce8.txt", "two\nlines.txt", "invoice.py"):
        (repository.folder / name).write_text("two\n")
    git(repository.folder, "add", ".")
    git(repository.folder, "commit", "-q", "-m", "second")
    by_commit = repository("touch", "--commit", "HEAD", "--json")
    assert {each["key"] for each in by_commit.json["items"]} == {
        "repo:billing/caf\\udce8.txt",
        "repo:billing/invoice.py",
        "repo:billing/two\\u000alines.txt",
    }
    (by_name,) = repository("touch", "caf\udce8.txt", "--json").json["items"]
    assert by_name["key"] == "repo:billing/caf\\udce8.txt"


def test_a_file_that_cannot_be_read_is_wrong_usage_and_no_traceback(terminal: Terminal) -> None:
    (terminal.folder / "loop").symlink_to("loop")
    said = terminal("touch", "loop")
    assert (said.code, "loop cannot be read: Too many levels of symbolic links" in said.err) == (2, True)


def test_a_folder_that_was_removed_is_wrong_usage_and_no_traceback(terminal: Terminal) -> None:
    gone = terminal.folder / "gone"
    gone.mkdir()
    terminal._patch.chdir(gone)
    gone.rmdir()
    for words in (("note.txt",), ("--commit", "HEAD")):
        said = terminal("touch", *words)
        assert (said.code, "this folder was removed" in said.err) == (2, True), said.err


def test_a_hook_that_somebody_else_wrote_is_kept(repository: Terminal) -> None:
    hook = repository.folder / ".git" / "hooks" / "post-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho mine\n")
    said = repository("hook", "git", "--install")
    assert said.code == 1
    assert "add this line" in said.err
    assert hook.read_text() == "#!/bin/sh\necho mine\n"


def test_a_commit_goes_through_although_nobody_can_be_told(repository: Terminal) -> None:
    assert repository("hook", "git", "--install").code == 0
    git(repository.folder, "config", "interlock.repo", "elsewhere")
    (repository.folder / ".interlock").write_text("not a folder")
    (repository.folder / "invoice.py").write_text("two\n")
    git(repository.folder, "commit", "-q", "-am", "second")
    assert git(repository.folder, "log", "--format=%s", "-1") == "second"


def test_a_touch_that_collides_says_with_whom_and_the_conflict_can_be_settled(terminal: Terminal) -> None:
    key = terminal.key("bot", "--kind", "agent", "--roles", "submit,work")
    with Interlock(store=f"sqlite:///{terminal.folder}/.interlock/interlock.db", key=key) as bot:
        bot.call("POST", "leases", body={"resource": "doc:1", "ttl_seconds": 60})
    said = terminal("touch", "--target", "doc:1", "--version", "v2")
    assert "another principal works on doc:1" in said.out
    (conflict,) = terminal("conflicts", "--json").json["items"]
    shown = terminal("conflict", "show", conflict["id"]).out
    assert "human_edit_during_lease" in shown
    assert "safest now:" in shown
    settled = terminal("conflict", "resolve", conflict["id"], "keep_second", "--note", "mine is right")
    assert settled.out == f"{conflict['id']} is resolved: keep_second; carried out: settle lease\n"
    assert terminal("conflicts").out.startswith("no open conflicts")
    assert "narrower" in terminal("conflicts", "--patterns").out
    assert "doc:1" in terminal("targets").out


def test_a_command_to_copy_holds_no_other(terminal: Terminal) -> None:
    name = "refund $(touch marks); 1"
    assert terminal("effect", "begin", name, "--request", "{}").code == 0
    assert terminal("effect", "fail", name, "--fence", "1", "--error", "lost").code == 0
    said = terminal("effect", "show", name).out
    assert "interlock effect resolve 'refund $(touch marks); 1' committed|" in said


def test_an_effect_nobody_knows_about_is_shown_with_the_way_out(terminal: Terminal) -> None:
    store = f"sqlite:///{terminal.folder}/.interlock/interlock.db"
    with Interlock(store=store) as il, pytest.raises(ZeroDivisionError):
        il.once("refund:1", lambda: 1 // 0)
    assert [e["state"] for e in terminal("effects", "--json").json["items"]] == ["AMBIGUOUS"]
    assert "interlock effect resolve refund:1" in terminal("effect", "show", "refund:1").out
    resolved = terminal("effect", "resolve", "refund:1", "committed", "--evidence", "seen", "--result", "[1]")
    assert resolved.out == "refund:1 is COMMITTED; a repeat returns its result and does nothing\n"
    assert terminal("effect", "show", "refund:1", "--json").json["result"] == [1]
    assert "refund:1" in terminal("effects", "--state", "COMMITTED").out


def test_a_file_has_the_same_name_in_every_clone_and_worktree(repository: Terminal) -> None:
    def key_in(folder: Path) -> str:
        (folder / "invoice.py").write_text("changed\n")
        repository._patch.chdir(folder)
        said = repository("touch", "invoice.py", "--json", "--store", store)
        return said.json["items"][0]["key"]

    home = repository.folder
    store = f"sqlite:///{home}/.interlock/interlock.db"
    repository("init", "--bare")
    git(home, "worktree", "add", "-q", "../pane-2")
    git(home.parent, "clone", "-q", str(home), "left")
    git(home.parent, "clone", "-q", "--bare", str(home), "billing.git")
    git(home.parent, "clone", "-q", str(home.parent / "billing.git"), "right")
    git(home.parent / "right", "remote", "set-url", "origin", "git@example.com:acme/billing.git")
    folders = (home, home.parent / "pane-2", home.parent / "left", home.parent / "right")
    assert {key_in(folder) for folder in folders} == {"repo:billing/invoice.py"}
    git(home, "config", "interlock.repo", "accounts")
    assert key_in(home.parent / "pane-2") == "repo:accounts/invoice.py"


@pytest.mark.parametrize(
    ("session", "collides", "warns"),
    [(("--session", "left"), False, False), (("--session", "right"), True, False), ((), False, True)],
)
def test_a_touch_names_its_session(
    terminal: Terminal, session: tuple[str, ...], collides: bool, warns: bool
) -> None:
    terminal("lease", "acquire", "doc:1", "--session", "left")
    said = terminal("touch", "--target", "doc:1", "--version", "2", *session)
    assert ("another principal or session works on doc:1" in said.out) is collides
    assert ("held in your session left" in said.out) is warns
    assert ("pass --session left or set INTERLOCK_SESSION" in said.out) is warns
    assert len(terminal("conflicts", "--json").json["items"]) == collides


def test_the_environment_names_the_session_of_leases_and_touches(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_SESSION", "left")
    lease = terminal("lease", "acquire", "doc:1", "--json").json
    assert lease["session"] == "left"
    fence = ("--fence", str(lease["fence"]))
    assert terminal("lease", "renew", lease["lease_id"], *fence).code == 0
    assert "held in your session" not in terminal("touch", "--target", "doc:1", "--version", "2").out
    refused = terminal("lease", "renew", lease["lease_id"], *fence, "--session", "")
    assert (refused.code, "acquired in session left, and this call names no session" in refused.err) == (
        1,
        True,
    )
    monkeypatch.setenv("INTERLOCK_SESSION", "right")
    terminal("touch", "--target", "doc:1", "--version", "3")
    (conflict,) = terminal("conflicts", "--json").json["items"]
    assert conflict["kind"] == "human_edit_during_lease"  # who works on the store itself is a person


@pytest.mark.parametrize(
    ("session", "found"), [("left", []), ("right", ["human_edit_during_lease"]), (None, [])]
)
def test_the_git_hook_reports_in_the_session_of_whoever_commits(
    repository: Terminal, session: str | None, found: list[str]
) -> None:
    repository("init", "--bare")
    repository("hook", "git", "--install")
    repository("lease", "acquire", "repo:billing/**", "--session", "left")
    (repository.folder / "invoice.py").write_text("two\n")
    extra = {} if session is None else {"INTERLOCK_SESSION": session}
    git(repository.folder, "commit", "-qam", "second", **extra)
    kinds = [conflict["kind"] for conflict in repository("conflicts", "--json").json["items"]]
    assert kinds == found
    touches = repository("target", "repo:billing/invoice.py", "--json").json["touches"]
    assert [touch["session"] for touch in touches] == [session or ""]

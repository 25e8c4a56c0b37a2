"""`interlock exec` under an approval: asked, waited for, resumed, and held to what was approved."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timedelta

import pytest

from tests.cli.task_folder import call
from tests.cli.terminal import Said, Terminal
from tests.cli.test_dispatch import IMPORTED
from tests.harness.server import InterlockServer, clean_env

TASKS = """\
tasks:
  mark:
    command: [sh, -c, 'echo ran >> marks; echo out; exit ${1:-0}', mark]
    env: [COLOUR]
    approval: {risk: [production]}
  slow:
    command: [sh, -c, 'echo ran >> marks']
    approval: {}
"""
POLICY = """\
version: v1
rules:
  - {id: ask, when: {topic: exec.mark}, decision: require_human, approval: {self_approval: true}}
  - {id: slow, when: {topic: exec.slow}, decision: require_human, approval: {self_approval: true, grace: 2s}}
  - {id: touch, when: {topic: exec.touch}, decision: allow}
  - {id: named, when: {topic: exec.cleanup}, decision: require_human, approval: {self_approval: true}}
"""


@pytest.fixture
def task_terminal(terminal: Terminal) -> Terminal:
    """A terminal in a folder with tasks, and a policy in force."""
    terminal.file("interlock.yaml", TASKS)
    assert terminal("policy", "apply", terminal.file("policy.yaml", POLICY)).code == 0
    return terminal


def asked(task_terminal: Terminal, *words: str) -> str:
    """Run a task that has to be approved; returns the id to resume it with."""
    said = task_terminal("exec", *words, "--json")
    assert said.code == 4, said.err
    problem = said.problem
    assert problem["resume"] == f"interlock exec --resume {problem['job_id']} --wait 10m"
    return str(problem["job_id"])


def yard_problem(said: Said) -> dict[str, object]:
    """The last line of stderr, which is the problem."""
    import json

    return json.loads(said.err.strip().splitlines()[-1])


def marks(task_terminal: Terminal) -> list[str]:
    path = task_terminal.folder / "marks"
    return path.read_text().splitlines() if path.exists() else []


def test_an_approved_command_runs_once_when_it_is_resumed(task_terminal: Terminal) -> None:
    job = asked(task_terminal, "mark", "6")
    assert task_terminal("exec", "--resume", job).code == 4
    assert task_terminal("job", job, "--json").json["risk"] == ["production"]
    assert task_terminal("approve", job).code == 0

    ran = task_terminal.process("exec", "--resume", job)
    again = task_terminal.process("exec", "--resume", job)

    assert (ran.code, ran.out) == (6, "out\n")
    assert (again.code, again.out) == (6, "")
    assert "did not run again" in again.err
    assert marks(task_terminal) == ["ran"]
    assert task_terminal("job", job, "--json").json["error"]["exit_code"] == 6


def test_an_approved_command_does_not_run_before_the_grace_is_over(task_terminal: Terminal) -> None:
    job = asked(task_terminal, "slow")
    assert task_terminal("approve", job).code == 0
    assert task_terminal("exec", "--resume", job).code == 4
    assert marks(task_terminal) == []

    ran = task_terminal.process("exec", "--resume", job, "--wait", "1m")

    assert (ran.code, marks(task_terminal)) == (0, ["ran"])
    entries = task_terminal("job", job, "--history", "--json").json["items"]
    at = {entry["action"]: datetime.fromisoformat(entry["at"]) for entry in entries}
    assert at["claim"] - at["approve"] >= timedelta(seconds=2)


def test_many_who_resume_one_job_at_once_run_it_once_and_hear_what_became_of_it(
    task_terminal: Terminal,
) -> None:
    job = asked(task_terminal, "mark", "9")
    task_terminal("approve", job)
    words = [sys.executable, "-m", "interlock.cli.main", "exec", "--resume", job]
    crowd = [
        subprocess.Popen(words, cwd=task_terminal.folder, env=clean_env(), stdin=subprocess.DEVNULL)
        for _ in range(6)
    ]

    codes = {process.wait(120) for process in crowd}

    assert 9 in codes
    assert codes <= {9, 5}
    assert marks(task_terminal) == ["ran"]


def test_a_command_that_ends_well_completes_its_job(task_terminal: Terminal) -> None:
    job = asked(task_terminal, "mark")
    task_terminal("approve", job)
    assert task_terminal.process("exec", "--resume", job).code == 0
    done = task_terminal("job", job, "--json").json
    assert (done["state"], done["result"]["exit_code"]) == ("SUCCEEDED", 0)


def test_what_drifted_since_it_was_approved_is_refused_with_a_readable_difference(
    task_terminal: Terminal,
) -> None:
    job = asked(task_terminal, "mark", "1")
    task_terminal("approve", job)
    task_terminal.file("interlock.yaml", TASKS.replace("echo out", "echo other"))
    task_terminal.use(COLOUR="blue")

    said = task_terminal("exec", "--resume", job)

    assert said.code == 3
    assert "  argv\n  - approved  [" in said.err
    assert "  + would run [" in said.err
    assert "  env.COLOUR\n  - approved  (absent)\n" in said.err
    assert marks(task_terminal) == []
    task_terminal.file("interlock.yaml", TASKS)
    task_terminal.forget("COLOUR")
    assert task_terminal.process("exec", "--resume", job).code == 1


def test_a_job_that_went_back_after_its_command_ended_is_finished_when_it_is_resumed(
    task_terminal: Terminal,
) -> None:
    job = asked(task_terminal, "mark", "4")
    assert task_terminal("approve", job).code == 0
    shown = task_terminal("exec", "--show", "mark", "4").json
    held = call(task_terminal, "POST", f"jobs/{job}/claim", {"lease_seconds": 60})
    begun = call(
        task_terminal,
        "POST",
        f"effects/exec:{job}/begin",
        {"request_hash": shown["command_hash"], "job_id": job},
    )
    ended = {"fence": begun["fence"], "result": {"exit_code": 4}}
    call(task_terminal, "POST", f"effects/exec:{job}/commit", ended)
    call(task_terminal, "POST", f"jobs/{job}/release", {"fence": held["fence"]})

    said = task_terminal("exec", "--resume", job)

    assert (said.code, "did not run again" in said.err, marks(task_terminal)) == (4, True, [])
    assert task_terminal("job", job, "--json").json["state"] == "FAILED"


def test_what_comes_through_stdin_only_while_people_look_is_no_drift(task_terminal: Terminal) -> None:
    words = [sys.executable, "-m", "interlock.cli.main", "exec", "--wait", "2m", "mark"]
    process = subprocess.Popen(
        words,
        cwd=task_terminal.folder,
        env=clean_env(),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin
    assert process.stderr
    job = ""
    while not job.startswith("job_"):
        job = process.stderr.readline().partition(" ")[0]
    process.stdin.write("late\n")
    process.stdin.close()

    assert task_terminal("approve", job).code == 0

    assert process.wait(120) == 0, process.stderr.read()
    assert marks(task_terminal) == ["ran"]
    process.stderr.close()


def test_other_arguments_are_not_what_was_approved(task_terminal: Terminal) -> None:
    job = asked(task_terminal, "mark", "1")
    task_terminal("approve", job)
    said = task_terminal("exec", "--resume", job, "mark", "2")
    assert said.code == 3
    assert "args" in said.err


def test_a_rejected_command_does_not_run(task_terminal: Terminal) -> None:
    job = asked(task_terminal, "mark")
    task_terminal("reject", job, "--reason", "not today")
    said = task_terminal("exec", "--resume", job)
    assert said.code == 3
    assert "not today" in said.err


def test_a_standing_grant_releases_a_command_without_a_person(task_terminal: Terminal) -> None:
    policy = POLICY.replace(
        "topic: exec.touch}, decision: allow",
        "topic: exec.touch}, decision: require_human, approval: {self_approval: true}",
    )
    task_terminal("policy", "apply", task_terminal.file("policy.yaml", policy))
    task_terminal("grant", "exec.touch", "--standing", "--pin", "args.0=here")

    assert task_terminal("exec", "--", "touch", "there").code == 4
    assert task_terminal.process("exec", "--", "touch", "here").code == 0
    assert task_terminal("exec", "--", "touch", "here").code == 4
    assert (task_terminal.folder / "here").exists()
    assert not (task_terminal.folder / "there").exists()


def test_a_command_that_no_task_declares_goes_through_policy(task_terminal: Terminal) -> None:
    assert task_terminal.process("exec", "--", "touch", "made").code == 0
    assert (task_terminal.folder / "made").exists()
    denied = task_terminal("exec", "--", "rm", "made")
    assert denied.code == 3
    assert "exec.rm" in denied.err
    assert (task_terminal.folder / "made").exists()


def test_a_named_command_without_a_grant_is_asked_for_under_its_name_and_resumed(
    task_terminal: Terminal,
) -> None:
    said = task_terminal("exec", "--json", "cleanup", "--", "sh", "-c", "echo ran >> marks")
    assert said.code == 4
    job = str(yard_problem(said)["job_id"])
    assert task_terminal("job", job, "--json").json["topic"] == "exec.cleanup"
    assert task_terminal("approve", job).code == 0

    assert task_terminal.process("exec", "--resume", job).code == 0
    assert marks(task_terminal) == ["ran"]


def test_the_printed_id_is_enough_to_resume_with_the_options_that_were_asked_about(
    task_terminal: Terminal,
) -> None:
    task_terminal.use(COLOUR="red")
    words = ("--timeout", "5m", "--env", "COLOUR", "cleanup", "--", "sh", "-c", 'echo "$COLOUR" >> marks')
    job = str(task_terminal("exec", "--json", *words).problem["job_id"])
    assert task_terminal("approve", job).code == 0

    said = task_terminal.process("exec", "--resume", job, env={"COLOUR": "red"})

    assert (said.code, marks(task_terminal)) == (0, ["red"]), said.err


@pytest.mark.parametrize("payload", [
    "{}", "7", '{"argv": ["touch"]}', '{"argv": [], "args": []}', '{"argv": 5, "args": []}',
    '{"argv": [1], "args": []}', '{"argv": ["touch"], "args": [], "env": 7}',
    '{"argv": ["touch"], "args": [], "timeout_seconds": "x"}',
    '{"task": "mark", "argv": [], "args": 5, "definition": {}}',
])  # fmt: skip
def test_a_job_that_says_no_command_is_a_usage_error(task_terminal: Terminal, payload: str) -> None:
    job = task_terminal("submit", "exec.touch", "--payload", payload, "--json").json["id"]
    said = task_terminal("exec", "--resume", job)
    assert (said.code, "no command of `interlock exec`" in said.err) == (2, True), said.err


def test_a_task_file_that_was_named_is_named_in_how_to_go_on(task_terminal: Terminal) -> None:
    task_terminal.file("other.yaml", TASKS)
    said = task_terminal("exec", "--tasks", "other.yaml", "mark", "--json")
    assert said.problem["resume"].startswith("interlock exec --tasks other.yaml --resume job_")


def test_a_command_that_policy_allows_starts_without_the_service(task_terminal: Terminal) -> None:
    heavy = "cryptography,httpx2,yaml,interlock.api.app,interlock.sdk.client,interlock.service.service"
    ended = subprocess.run(
        [sys.executable, "-c", IMPORTED, heavy, "exec", "--", "touch", "made"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=task_terminal.folder,
        env=clean_env(),
        check=True,
    )
    assert ended.stderr == "[]\n"
    assert (task_terminal.folder / "made").exists()
    (job,) = task_terminal("jobs", "--json").json["items"]
    assert (job["state"], job["topic"], job["result"]["exit_code"]) == ("SUCCEEDED", "exec.touch", 0)


def test_an_allowed_command_that_fails_leaves_a_failed_job_with_its_exit_code(
    task_terminal: Terminal,
) -> None:
    assert task_terminal.process("exec", "--", "touch", "no/such/folder").code == 1
    (job,) = task_terminal("jobs", "--json").json["items"]
    assert (job["state"], job["error"]["exit_code"]) == ("FAILED", 1)


def test_what_the_policy_denies_is_kept_and_names_the_rule(task_terminal: Terminal) -> None:
    denied = task_terminal("exec", "--json", "--", "rm", "made")
    problem = yard_problem(denied)
    assert (denied.code, problem["code"], problem["rule"]) == (3, "policy_denied", None)
    assert task_terminal("job", str(problem["job_id"]), "--json").json["state"] == "DENIED"


def test_options_after_two_dashes_belong_to_the_command(task_terminal: Terminal) -> None:
    shown = task_terminal("exec", "--show", "--", "echo", "--wait", "10m", "--json").json
    assert shown["argv"] == ["echo", "--wait", "10m", "--json"]


def test_it_works_the_same_through_a_server(
    task_terminal: Terminal, tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = f"sqlite:///{tmp_path_factory.mktemp('server')}/interlock.db"
    server = InterlockServer(store, policy=task_terminal.folder / "policy.yaml").start()
    try:
        ada, bot = (
            server.create_key("ada", roles="review"),
            server.create_key("bot", kind="agent", roles="submit"),
        )
        task_terminal.use(INTERLOCK_URL=server.url, INTERLOCK_KEY=bot.key)
        job = asked(task_terminal, "mark", "3")
        assert task_terminal("approve", job, "--api-key", ada.key).code == 0
        assert (
            task_terminal.process(
                "exec", "--resume", job, env={"INTERLOCK_URL": server.url, "INTERLOCK_KEY": bot.key}
            ).code
            == 3
        )
        assert task_terminal("grant", "mark", "--api-key", ada.key).code == 0
        assert (
            task_terminal.process(
                "exec", "mark", "4", env={"INTERLOCK_URL": server.url, "INTERLOCK_KEY": bot.key}
            ).code
            == 4
        )
        assert marks(task_terminal) == ["ran", "ran"]
    finally:
        server.close()

"""`interlock exec` under a job: who has to have said yes, what the job says afterwards, and how it is kept."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tests.cli.task_folder import call, effect_of, marks
from tests.cli.terminal import HANG_SECONDS, Terminal
from tests.harness.server import clean_env

TASKS = """\
tasks:
  ops: {command: [sh, -c, 'echo ops >> marks'], approval: {groups: [ops]}}
  mark: {command: [sh, -c, 'echo ran >> marks']}
  slow: {command: [sleep, '4']}
  flaky: {command: ./flaky.sh}
"""
POLICY = """\
version: v1
rules:
  - {id: ops, when: {topic: exec.ops}, decision: require_human, approval: {self_approval: true, APPROVAL}}
  - {id: ask, when: {topic: [exec.mark, exec.slow, exec.flaky]}, decision: require_human,
     approval: {self_approval: true}}
  - {id: free, when: {topic: [exec.true, exec.sleep, exec.flaky.sh]}, decision: allow}
"""
SHORT_LEASES = """
import sys
from interlock.cli.main import main
from interlock.cli import exec_allowed
from interlock.cli.execution import approved

exec_allowed._LEASE_SECONDS = approved.LEASE_SECONDS = 1
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def task_terminal(terminal: Terminal) -> Terminal:
    """A terminal in a folder with tasks, and a policy in force."""
    terminal.file("interlock.yaml", TASKS)
    flaky = terminal.folder / terminal.file("flaky.sh", "#!/nowhere\n")
    flaky.chmod(0o755)
    ruled(terminal, "quorum: 1")
    return terminal


def ruled(task_terminal: Terminal, approval: str) -> None:
    """Put the policy in force with this approval for `ops`."""
    policy = task_terminal.file("policy.yaml", POLICY.replace("APPROVAL", approval))
    assert task_terminal("policy", "apply", policy).code == 0


def reviewer(task_terminal: Terminal, name: str, groups: str) -> str:
    return task_terminal.key(name, "--kind", "person", "--roles", "review", "--groups", groups)


def asked(task_terminal: Terminal, task: str) -> str:
    return str(task_terminal("exec", task, "--json").problem["job_id"])


def job_of(task_terminal: Terminal) -> Any:
    (job,) = task_terminal("jobs", "--json").json["items"]
    return job


def test_a_rule_that_asks_more_groups_than_the_task_does_not_speak_for_the_tasks(
    task_terminal: Terminal,
) -> None:
    ruled(task_terminal, "groups: [ops, sales]")
    sam = reviewer(task_terminal, "sam", "sales")
    task_terminal.file("payload.json", task_terminal("exec", "--show", "ops").out)
    job = task_terminal("submit", "exec.ops", "--payload", "@payload.json", "--json").json["id"]
    assert task_terminal("approve", job, "--api-key", sam).code == 0

    said = task_terminal("exec", "--resume", job)

    assert (said.code, "by ops" in said.err, marks(task_terminal)) == (3, True, [])


def test_everybody_who_said_yes_has_to_be_in_the_tasks_groups(task_terminal: Terminal) -> None:
    ruled(task_terminal, "quorum: 2, groups: [sales]")
    job = asked(task_terminal, "ops")
    for name, groups in (("olga", "ops,sales"), ("sam", "sales")):
        assert task_terminal("approve", job, "--api-key", reviewer(task_terminal, name, groups)).code == 0

    said = task_terminal("exec", "--resume", job)

    assert (said.code, "by ops" in said.err, marks(task_terminal)) == (3, True, [])
    assert task_terminal("job", job, "--json").json["state"] == "CANCELLED"


def test_a_standing_grant_where_the_rule_asks_for_the_tasks_groups_is_enough(task_terminal: Terminal) -> None:
    ruled(task_terminal, "groups: [ops]")
    olga = reviewer(task_terminal, "olga", "ops")
    assert task_terminal("grant", "exec.ops", "--standing", "--api-key", olga).code == 0

    assert task_terminal.process("exec", "ops").code == 0
    assert marks(task_terminal) == ["ops"]


def test_an_effect_is_bound_to_the_job_that_permits_it(task_terminal: Terminal) -> None:
    assert task_terminal.process("exec", "--", "true").code == 0
    free = job_of(task_terminal)["id"]
    job = asked(task_terminal, "mark")
    task_terminal("approve", job)
    assert task_terminal.process("exec", "--resume", job).code == 0
    assert [effect_of(task_terminal, each)["job_id"] for each in (free, job)] == [free, job]


@pytest.mark.parametrize("words", [("--", "sleep", "4"), ("slow",)])
def test_a_job_is_kept_for_as_long_as_its_command_runs(
    task_terminal: Terminal, words: tuple[str, ...]
) -> None:
    if words == ("slow",):
        words = ("--resume", asked(task_terminal, "slow"))
        assert task_terminal("approve", words[1]).code == 0
    process = subprocess.Popen(
        [sys.executable, "-c", SHORT_LEASES, "exec", *words],
        cwd=task_terminal.folder, env=clean_env(), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip

    complaint = process.communicate(timeout=HANG_SECONDS)[1]

    assert (process.returncode, complaint) == (0, "")
    assert (job_of(task_terminal)["state"], job_of(task_terminal)["result"]["exit_code"]) == ("SUCCEEDED", 0)


@pytest.mark.parametrize("words", [("--", "./flaky.sh"), ("flaky",)])
def test_a_job_whose_command_could_not_start_is_used_up(
    task_terminal: Terminal, words: tuple[str, ...]
) -> None:
    if words == ("flaky",):
        words = ("--resume", asked(task_terminal, "flaky"))
        assert task_terminal("approve", words[1]).code == 0

    said = task_terminal.process("exec", *words)

    assert (said.code, "was used up without running" in said.err) == (1, True), said.err
    assert job_of(task_terminal)["state"] == "FAILED"
    assert effect_of(task_terminal, job_of(task_terminal)["id"])["state"] == "FAILED"


def test_a_job_that_somebody_else_holds_is_said_to_run_elsewhere(task_terminal: Terminal) -> None:
    job = asked(task_terminal, "mark")
    task_terminal("approve", job)
    call(task_terminal, "POST", f"jobs/{job}/claim", {"lease_seconds": 60})

    said = task_terminal("exec", "--resume", job)

    assert (said.code, "run elsewhere" in said.err, marks(task_terminal)) == (5, True, [])


def test_a_named_grant_that_does_not_fit_asks_nobody_instead(task_terminal: Terminal) -> None:
    grant = task_terminal("grant", "other", "--json").json["id"]

    said = task_terminal("exec", "--grant", grant, "mark")

    assert (said.code, "it is for other" in said.err) == (3, True), said.err
    assert task_terminal("jobs", "--json").json["items"] == []


def test_a_risk_that_is_one_word_is_a_risk(task_terminal: Terminal) -> None:
    task_terminal.file("interlock.yaml", "tasks: {mark: {command: 'true', approval: {risk: production}}}")
    assert task_terminal("job", asked(task_terminal, "mark"), "--json").json["risk"] == ["production"]


def test_a_job_that_is_resumed_under_a_grant_is_a_usage_error(task_terminal: Terminal) -> None:
    job = asked(task_terminal, "mark")
    task_terminal("approve", job)
    assert task_terminal("exec", "--grant", "gnt_1", "--resume", job).code == 2
    assert marks(task_terminal) == []


def test_a_command_that_is_too_long_to_be_asked_for_does_not_run(task_terminal: Terminal) -> None:
    said = task_terminal.process("exec", "--", "true", *["x" * 120_000] * 5)
    assert (said.code, "larger than 1048576 bytes" in said.err) == (1, True), said.err
    assert task_terminal("jobs", "--json").json["items"] == []

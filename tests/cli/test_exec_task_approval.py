"""`approval` in interlock.yaml: a task may ask for more than the policy does, never for less."""

from __future__ import annotations

import pytest

from tests.cli.task_folder import marks
from tests.cli.terminal import Terminal

TASKS = """\
tasks:
  ops: {command: "true", approval: {groups: [ops]}}
  loose: {command: [sh, -c, 'echo loose >> marks'], approval: {required: false}}
  strict: {command: [sh, -c, 'echo strict >> marks']}
  signed: {command: [sh, -c, 'echo signed >> marks'], approval: {signed: true}}
  unknown: {command: [sh, -c, 'echo unknown >> marks'], approval: {groups: [ops]}}
  never: {command: [sh, -c, 'echo never >> marks']}
"""
POLICY = """\
version: v1
rules:
  - {id: ops, when: {topic: exec.ops}, decision: require_human, approval: {self_approval: true}}
  - {id: free, when: {topic: [exec.loose, exec.strict, exec.signed]}, decision: allow}
  - {id: never, when: {topic: exec.never}, decision: deny}
"""


@pytest.fixture
def task_terminal(terminal: Terminal) -> Terminal:
    """A terminal in a folder with tasks, and a policy in force."""
    terminal.file("interlock.yaml", TASKS)
    assert terminal("policy", "apply", terminal.file("policy.yaml", POLICY)).code == 0
    return terminal


def test_a_task_may_ask_for_more_than_the_policy_and_never_for_less(task_terminal: Terminal) -> None:
    strict = task_terminal("exec", "strict")
    assert (strict.code, "asking for an approval instead" in strict.err) == (4, True)
    assert task_terminal("exec", "never").code == 3
    assert task_terminal.process("exec", "loose").code == 0
    assert marks(task_terminal) == ["loose"]


@pytest.mark.parametrize("task", ["strict", "unknown"])
def test_people_decide_where_the_policy_allows_it_or_does_not_know_of_it(
    task_terminal: Terminal, task: str
) -> None:
    olga = task_terminal.key("olga", "--kind", "person", "--roles", "review", "--groups", "ops")
    job = str(task_terminal("exec", task, "--json").problem["job_id"])

    assert task_terminal("exec", "--resume", job).code == 4
    assert task_terminal("approve", job, "--api-key", olga).code == 0
    assert task_terminal.process("exec", "--resume", job).code == 0
    assert marks(task_terminal) == [task]


def test_a_store_without_a_policy_asks_people_about_a_task_that_says_so(terminal: Terminal) -> None:
    terminal.file("interlock.yaml", TASKS)
    ann = terminal.key("ann", "--kind", "person", "--roles", "review")

    assert terminal("exec", "loose").code == 3
    job = str(terminal("exec", "strict", "--json").problem["job_id"])
    assert terminal("approve", job, "--api-key", ann).code == 0
    assert terminal.process("exec", "--resume", job).code == 0
    assert marks(terminal) == ["strict"]


def test_an_approval_by_others_than_the_tasks_groups_is_not_enough(task_terminal: Terminal) -> None:
    eve = task_terminal.key("eve", "--kind", "person", "--roles", "review", "--groups", "sales")
    job = str(task_terminal("exec", "ops", "--json").problem["job_id"])
    assert task_terminal("approve", job, "--api-key", eve, "--json").problem["code"] == "not_eligible"
    assert task_terminal("exec", "--resume", job).code == 4


def test_an_approval_by_somebody_in_the_tasks_groups_is_enough(task_terminal: Terminal) -> None:
    olga = task_terminal.key("olga", "--kind", "person", "--roles", "review", "--groups", "ops,night")
    job = str(task_terminal("exec", "ops", "--json").problem["job_id"])
    assert task_terminal("approve", job, "--api-key", olga).code == 0
    assert task_terminal.process("exec", "--resume", job).code == 0


def test_a_grant_counts_for_a_task_that_asks_for_groups_if_its_issuer_is_in_one(
    task_terminal: Terminal,
) -> None:
    for name, groups in (("eve", "sales"), ("olga", "ops")):
        person = (
            "key",
            "create",
            name,
            "--kind",
            "person",
            "--roles",
            "review",
            "--groups",
            groups,
            "--json",
        )
        assert task_terminal("grant", "ops", "--api-key", task_terminal(*person).json["key"]).code == 0

    assert [task_terminal.process("exec", "ops").code for _ in range(2)] == [0, 4]
    used = {grant["approver"]: grant["used"] for grant in task_terminal("grants", "--json").json["items"]}
    assert used == {"eve": 0, "olga": 1}


def test_whoever_opens_the_store_grants_for_every_group(task_terminal: Terminal) -> None:
    assert task_terminal("grant", "ops").code == 0
    assert task_terminal.process("exec", "ops").code == 0


def test_a_standing_grant_by_others_than_the_tasks_groups_is_not_enough(task_terminal: Terminal) -> None:
    task_terminal("grant", "exec.ops", "--standing")
    assert task_terminal("exec", "ops").code == 4
    assert [grant["used"] for grant in task_terminal("grants", "--json").json["items"]] == [0]


def test_a_standing_grant_by_somebody_in_the_tasks_groups_is_enough(task_terminal: Terminal) -> None:
    olga = task_terminal.key("olga", "--kind", "person", "--roles", "review", "--groups", "ops")
    task_terminal("grant", "exec.ops", "--standing", "--api-key", olga)
    assert task_terminal.process("exec", "ops").code == 0
    assert [grant["used"] for grant in task_terminal("grants", "--json").json["items"]] == [1]


def test_no_approval_stands_for_the_signed_grant_that_a_task_asks_for(task_terminal: Terminal) -> None:
    task_terminal.file("payload.json", task_terminal("exec", "--show", "signed").out)
    job = task_terminal("submit", "exec.signed", "--payload", "@payload.json", "--json").json["id"]

    said = task_terminal("exec", "--resume", job)

    assert (said.code, "asks for a signed grant" in said.err) == (3, True)
    assert marks(task_terminal) == []

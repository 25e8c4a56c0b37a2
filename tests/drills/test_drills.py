"""Each drill, small: its verdict, its JSON, its exit code, and that nothing of it stays."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from interlock import Interlock
from interlock.cli.drill import say_report
from interlock.drills.outage import drill_outage
from interlock.drills.report import Answer, Check, phase, report
from interlock.drills.retries import drill_retries
from interlock.store import store_for
from tests.harness.postgres import PostgresServer
from tests.harness.server import InterlockServer, clean_env

HANG_SECONDS = 120
ASKS = 'version: v1\nrules:\n  - {id: ask, when: {topic: "drill.**"}, decision: require_human}\n'
Serve = Callable[..., InterlockServer]


def drill(
    *words: str, folder: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `interlock drill …` in a process of its own."""
    return interlock("drill", *words, folder=folder, env=env)


def interlock(
    *words: str, folder: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own."""
    command = [sys.executable, "-m", "interlock", *words]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=HANG_SECONDS, cwd=folder, env=clean_env(env)
    )


@pytest.fixture
def deployment(serve: Serve, sqlite_url: str, tmp_path: Path) -> tuple[str, str]:
    """The URL of a server with a policy, and an admin's key to it."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(ASKS)
    server = serve(sqlite_url, policy=policy)
    return server.url, server.create_key("root", kind="person", roles="admin,operate,audit").key


def test_admission_on_a_temporary_server_passes_and_leaves_nothing(tmp_path: Path) -> None:
    said = drill("admission", "--crowds", "10,30", "--json", folder=tmp_path)
    found = json.loads(said.stdout)
    assert (said.returncode, found["verdict"], found["left_behind"]) == (0, "passed", [])
    assert [each["codes"]["201"] for each in found["phases"]] == [20, 2, 2]
    assert [each["codes"]["429"] for each in found["phases"]] == [0, 8, 28]
    assert list(tmp_path.iterdir()) == []


def test_drills_on_a_deployment_take_back_what_they_made(deployment: tuple[str, str], tmp_path: Path) -> None:
    url, key = deployment
    with Interlock(url, key=key) as il:
        before = (il.get_policy().snapshot, il.limits().items)
        for words in (("admission", "--crowds", "10"), ("approvals", "--people", "4")):
            said = drill(*words, "--url", url, "--api-key", key, "--json", folder=tmp_path)
            assert said.returncode == 0, said.stdout + said.stderr
            assert json.loads(said.stdout)["left_behind"] == []
        assert (il.get_policy().snapshot, il.limits().items) == before
        assert {run.state for run in il.runs().items} == {"succeeded"}
        assert {job.state for job in il.jobs().items} <= {"CANCELLED", "DENIED"}
        members = il.call("GET", "principals", query={"limit": 200})["items"]
    assert [each["name"] for each in members if each["name"].startswith("drill-")] == []


def test_approvals_need_a_policy_that_asks_and_say_so(deployment: tuple[str, str], tmp_path: Path) -> None:
    url, key = deployment
    said = drill("approvals", "--topic", "elsewhere", "--url", url, "--api-key", key, folder=tmp_path)
    assert said.returncode == 1
    assert "--topic" in said.stderr


def test_a_deployment_is_found_where_every_command_finds_it(
    deployment: tuple[str, str], tmp_path: Path
) -> None:
    url, key = deployment
    named = {"INTERLOCK_URL": url, "INTERLOCK_KEY": key}
    said = drill("admission", "--crowds", "5", "--json", folder=tmp_path, env=named)
    assert json.loads(said.stdout)["where"] == url
    elsewhere = {"INTERLOCK_URL": "http://127.0.0.1:9", "INTERLOCK_KEY": "il_wrong"}
    words = ("--crowds", "5", "--json", "--url", url, "--api-key", key)
    said = drill("admission", *words, folder=tmp_path, env=elsewhere)
    assert json.loads(said.stdout)["where"] == url


def test_a_deployment_that_cannot_be_used_is_told_as_by_every_command(
    deployment: tuple[str, str], serve: Serve, sqlite_url: str, tmp_path: Path
) -> None:
    url, _ = deployment
    reviewer = serve(sqlite_url).create_key("rita", kind="person", roles="review").key
    for env in (
        {"INTERLOCK_URL": "http://127.0.0.1:9", "INTERLOCK_KEY": "il_any"},
        {"INTERLOCK_URL": url},
        {"INTERLOCK_URL": url, "INTERLOCK_KEY": "il_wrong"},
        {"INTERLOCK_URL": url, "INTERLOCK_KEY": reviewer},
        {"INTERLOCK_URL": "ftp://nowhere"},
    ):
        ours = drill("approvals", "--patience", "0s", folder=tmp_path, env=env)
        theirs = interlock("key", "list", "--patience", "0s", folder=tmp_path, env=env)
        assert ours.returncode == theirs.returncode != 0
        assert ours.stderr == theirs.stderr != ""


def test_a_drill_that_asks_a_server_takes_no_store(tmp_path: Path) -> None:
    said = interlock("--store", "memory:", "drill", "admission", folder=tmp_path)
    assert said.returncode == 2
    assert "--url" in said.stderr


async def test_a_blocked_file_is_503_and_every_key_one_run() -> None:
    found = await drill_outage(None, clients=4, seconds=4)
    assert found.verdict == "passed", found
    assert set(found.phases[0].codes) >= {"5xx"}
    assert found.phases[0].codes["5xx"] == found.phases[0].count > 0


async def test_a_locked_postgresql_is_503_and_every_key_one_run(postgres_url: str) -> None:
    await make(postgres_url)
    found = await drill_outage(postgres_url, clients=4, seconds=4)
    assert (found.verdict, found.left_behind) == ("passed", [])
    assert await principals(postgres_url) == []


@pytest.mark.slow
def test_a_stopped_postgresql_is_503_and_every_key_one_run(
    private_postgres: PostgresServer, tmp_path: Path
) -> None:
    store = private_postgres.create_database()
    asyncio.run(make(store))
    pid = str(private_postgres.pid)
    options = ("--clients", "4", "--lasting", "4s", "--json")

    said = drill("outage", "--store", store, "--pid", pid, *options, folder=tmp_path)

    found = json.loads(said.stdout)
    assert (said.returncode, found["verdict"], found["left_behind"]) == (0, "passed", []), said.stdout
    assert found["phases"][0]["codes"]["5xx"] == found["phases"][0]["count"] > 0
    assert asyncio.run(principals(store)) == []


def test_a_process_that_is_not_there_is_not_stopped(postgres_url: str, tmp_path: Path) -> None:
    asyncio.run(make(postgres_url))
    said = drill("outage", "--store", postgres_url, "--pid", "4194304", folder=tmp_path)
    assert said.returncode == 1
    assert "check --pid" in said.stderr


async def make(store: str) -> None:
    """A drill plays on a store that is there."""
    made = store_for(store)
    await made.open()
    await made.close()


async def principals(store: str) -> list[str]:
    """Everybody in every tenant that a drill made, by the store itself."""
    import asyncpg

    connection = await asyncpg.connect(store)
    try:
        rows = await connection.fetch("SELECT id FROM principals WHERE tenant LIKE 'drill-%'")
        return [row["id"] for row in rows]
    finally:
        await connection.close()


def test_a_store_is_found_in_this_folder_and_more_clients_than_a_page_are_counted(tmp_path: Path) -> None:
    asyncio.run(make(f"sqlite:///{tmp_path / 'here.db'}"))
    said = drill(
        *("outage", "--store", "sqlite:///here.db", "--clients", "210", "--lasting", "3s", "--json"),
        folder=tmp_path,
    )
    assert (said.returncode, said.stderr) == (0, "")
    counted = {check["claim"]: check["seen"] for check in json.loads(said.stdout)["checks"]}
    assert counted["recovery: one run for each key"] == "211 of 211"
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".db"] == ["here.db"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--lasting", "2s"), "at least 3s"),
        (("--store", "nonsense"), "cannot be blocked"),
        (("--store", "sqlite:////dev/null/store.db"), "there is no store at /dev/null/store.db"),
        (("--store", "memory:"), "cannot be blocked"),
    ],
)
def test_an_outage_that_cannot_be_played_is_said_in_one_line(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    ended = drill("outage", *words, folder=tmp_path)
    assert said in ended.stderr
    assert ended.stderr.splitlines()[-1].startswith("interlock")


def test_an_outage_on_a_server_needs_its_store_to_be_named(tmp_path: Path) -> None:
    said = drill("outage", "--url", "http://127.0.0.1:9", folder=tmp_path)
    assert said.returncode == 1
    assert "--store" in said.stderr


def test_split_classes_spare_the_service() -> None:
    found = drill_retries(clients=30, outage_seconds=15)
    one, split = found.contestants
    assert found.verdict == "passed"
    assert split.outage_amplification <= 1.1 < one.outage_amplification
    assert split.peak_over_steady <= 2 < one.peak_over_steady


def test_an_outage_of_too_few_calls_is_too_small_to_tell(tmp_path: Path) -> None:
    said = drill("retries", "--clients", "20", "--outage", "2s", folder=tmp_path)
    assert said.returncode == 1
    assert "use --outage 10s or more" in said.stdout
    assert "verdict: too small to tell" in said.stdout
    assert "✗" not in said.stdout


async def test_an_outage_in_which_no_caller_is_answered_is_too_small_to_tell() -> None:
    found = await drill_outage(None, clients=1, seconds=0.5)
    assert found.verdict == "too small to tell", found
    assert [check.held for check in found.checks if check.claim.startswith("outage:")] == [None] * 3
    assert "--lasting" in found.checks[1].seen


def test_who_competes_with_nobody_is_too_small_to_tell(tmp_path: Path) -> None:
    alone = json.loads(drill("approvals", "--people", "1", "--json", folder=tmp_path).stdout)
    assert alone["verdict"] == "too small to tell"
    fitting = json.loads(drill("admission", "--crowds", "2", "--json", folder=tmp_path).stdout)
    assert fitting["verdict"] == "too small to tell"
    assert [check["held"] for check in fitting["checks"]] == [True, None, True, None, True]


def test_a_claim_that_failed_weighs_more_than_one_too_small_to_tell() -> None:
    unclear, failed = Check(claim="a", held=None), Check(claim="b", held=False)
    assert report("admission", "here", [], [unclear]).verdict == "too small to tell"
    assert report("admission", "here", [], [unclear, failed]).verdict == "failed"
    assert report("admission", "here", [], [unclear], left_behind=["a key"]).verdict == "failed"


def test_a_claim_that_did_not_hold_fails_the_drill(capsys: pytest.CaptureFixture[str]) -> None:
    answers = [
        Answer(status=201, seconds=0.004),
        Answer(status=503, seconds=1.5),
        Answer(status=0, seconds=9),
    ]
    found = report(
        "admission", "here", [phase("crowd", answers)], [Check(claim="no 5xx", held=False, seen="1")]
    )
    assert found.verdict == "failed"
    assert found.phases[0].codes == {"200": 0, "201": 1, "409": 0, "423": 0, "429": 0, "5xx": 1, "none": 1}
    say_report(found)
    shown = capsys.readouterr().out
    assert "✗ no 5xx" in shown
    assert "verdict: failed" in shown


def test_what_is_left_behind_fails_the_drill() -> None:
    assert report("admission", "here", [], [], left_behind=["a key"]).verdict == "failed"

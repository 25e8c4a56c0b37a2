"""`interlock worker --exec`: payload in, exit code and output out, as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock, verify_permit
from tests.harness.server import clean_env

HANG_SECONDS = 60


class WorkerStore:
    """A store, and `interlock worker` on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = f"sqlite:///{folder}/interlock.db"
        self.il = Interlock(store=self.store)
        self.il.apply_policy("version: v1\ndefault: allow\n")

    def start(self, command: str, *options: str) -> subprocess.Popen[str]:
        words = ["worker", "--store", self.store, "--topic", "a.*", "--exec", command, "--json", *options]
        return subprocess.Popen(
            [sys.executable, "-m", "interlock.cli.main", *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
            env={**clean_env(), "INTERLOCK_RETRY_BASE_SECONDS": "0.05", "INTERLOCK_KEY": ""},
        )  # fmt: skip

    def once(self, command: str, *options: str) -> tuple[int, dict[str, Any]]:
        with self.start(command, "--once", *options) as process:
            out, err = process.communicate(timeout=HANG_SECONDS)
        assert out, err
        return process.returncode, json.loads(out.splitlines()[-1])


@pytest.fixture
def worker_store(tmp_path: Path) -> Iterator[WorkerStore]:
    made = WorkerStore(tmp_path)
    yield made
    made.il.close()


def test_the_command_gets_the_payload_and_a_permit_and_its_json_is_the_result(
    worker_store: WorkerStore,
) -> None:
    job = worker_store.il.submit("a.b", {"cents": 5})
    script = (
        "import json, os, sys; e = os.environ; print(json.dumps({'payload': json.load(sys.stdin), "
        "'permit': e['INTERLOCK_PERMIT'], 'id': e['INTERLOCK_JOB_ID'], 'fence': e['INTERLOCK_FENCE'], "
        "'hash': e['INTERLOCK_JOB_HASH'], 'topic': e['INTERLOCK_TOPIC'], 'key': e.get('INTERLOCK_KEY')}))"
    )
    code, said = worker_store.once(f'{sys.executable} -c "{script}"')
    assert (code, said["outcome"], said["job_id"]) == (0, "succeeded", job.id)
    result = worker_store.il.get_job(job.id).result
    assert (result["payload"], result["id"], result["topic"]) == ({"cents": 5}, job.id, "a.b")
    assert result["key"] is None
    permit = verify_permit(result["permit"], worker_store.il.signing_keys(), job_hash=result["hash"])
    assert permit.fence == int(result["fence"]) == 1


@pytest.mark.parametrize(
    ("command", "options", "code", "outcome", "state"),
    [
        ("echo hello", (), 0, "succeeded", "SUCCEEDED"),
        ("true", (), 0, "succeeded", "SUCCEEDED"),
        ("exit 75", (), 1, "retrying", "PENDING"),
        ("exit 3", (), 1, "failed", "FAILED"),
        ("exit 3", ("--retry-any",), 1, "retrying", "PENDING"),
        ("kill -9 $$", (), 1, "failed", "FAILED"),
        ("head -c 300000 /dev/zero", (), 1, "failed", "FAILED"),
    ],
)
def test_how_the_command_ends_is_how_the_job_ends(
    worker_store: WorkerStore, command: str, options: tuple[str, ...], code: int, outcome: str, state: str
) -> None:
    job = worker_store.il.submit("a.b", {"x": "y" * 100_000})
    assert worker_store.once(command, *options)[0] == code
    assert worker_store.il.get_job(job.id).state == state


def test_work_that_is_done_is_done_whatever_it_prints(worker_store: WorkerStore) -> None:
    printed: dict[bytes, Any] = {
        b'{"a": 1}': {"a": 1},
        b'{"a": 1, "a": 2}': '{"a": 1, "a": 2}',
        b"12345678901234567890": "12345678901234567890",
        b"[" * 70 + b"]" * 70: "[" * 70 + "]" * 70,
        b"a\0b": "a\ufffdb",
        b"\xff": "\ufffd",
    }
    for n, said in enumerate(printed):
        (worker_store.folder / str(n)).write_bytes(said)
    jobs = [worker_store.il.submit("a.b", n).id for n in range(len(printed))]
    with worker_store.start("cat $(cat)") as process:
        for job in jobs:
            worker_store.il.wait(job, timeout=HANG_SECONDS)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=HANG_SECONDS)
    assert [worker_store.il.get_job(job).result for job in jobs] == list(printed.values())


def test_sigterm_lets_the_command_finish(worker_store: WorkerStore) -> None:
    job = worker_store.il.submit("a.b", {})
    begun = worker_store.folder / "begun"
    with worker_store.start(f"touch {begun}; sleep 1; echo done") as process:
        deadline = time.monotonic() + HANG_SECONDS
        while not begun.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 0, err
    assert (worker_store.il.get_job(job.id).state, worker_store.il.get_job(job.id).result) == (
        "SUCCEEDED",
        "done",
    )


def test_a_command_whose_job_is_lost_is_ended_with_all_it_started(worker_store: WorkerStore) -> None:
    job = worker_store.il.submit("a.b", {})
    number = worker_store.folder / "pid"
    with worker_store.start(f"sleep 600 & echo $! > {number}; wait", "--lease-seconds", "1") as process:
        deadline = time.monotonic() + HANG_SECONDS
        while not (number.exists() and number.read_text().strip()) and time.monotonic() < deadline:
            time.sleep(0.02)
        worker_store.il.cancel_job(job.id)
        child = int(number.read_text())
        while is_running(child) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=HANG_SECONDS)
    assert not is_running(child)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()

"""The service in this process: shared, reopened, forked, and finished in order."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from interlock import AsyncInterlock, Interlock, InvalidRequest, Unavailable
from interlock.sdk.retry import NO_RETRIES
from interlock.wire.workflows import Workflow, WorkflowStep

ALLOW = {"version": "v1", "default": "allow", "rules": []}


@pytest.fixture
def store(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/interlock.db"
    with Interlock(store=url) as il:
        il.apply_policy(ALLOW)
    return url


def services() -> int:
    return sum(thread.name == "interlock-embedded" for thread in threading.enumerate())


def test_nothing_is_opened_before_the_first_call(tmp_path: Path) -> None:
    Interlock(store=f"sqlite:///{tmp_path}/interlock.db")
    assert list(tmp_path.iterdir()) == []
    assert services() == 0


def test_clients_of_one_store_share_one_service_until_the_last_leaves(store: str) -> None:
    one, two, three = Interlock(store=store), Interlock(store=store), AsyncInterlock(store=store)
    job = one.submit("a.b", {"n": 1})
    assert two.get_job(job.id) == one.get_job(job.id) == asyncio.run(three.get_job(job.id))
    assert services() == 1
    one.close()
    two.close()
    assert services() == 1
    asyncio.run(three.close())
    assert services() == 0


def test_permit_keys_are_rotated_by_either_client(store: str) -> None:
    async def rotated() -> list[str]:
        async with AsyncInterlock(store=store) as il:
            return [each.kid for each in (await il.rotate_signing_keys(revoke=True)).keys]

    with Interlock(store=store) as il:
        (first,) = (each.kid for each in il.signing_keys().keys)
        old, new = (each.kid for each in il.rotate_signing_keys(lead_seconds=600).keys)
        (last,) = asyncio.run(rotated())
        assert old == first
        assert len({first, new, last}) == 3
        assert [each.kid for each in il.signing_keys().keys] == [last]


def test_a_workflow_that_was_read_can_be_defined_again_by_either_client(store: str) -> None:
    async def defined_again(steps: Sequence[WorkflowStep]) -> Workflow:
        async with AsyncInterlock(store=store) as il:
            return await il.define_workflow("copy", steps)

    with Interlock(store=store) as il:
        il.define_workflow("month", [{"id": "pay", "topic": "a.b"}, {"id": "ask", "kind": "approval"}])
        steps = il.get_workflow("month").steps
        assert [(step.id, step.kind) for step in steps] == [("pay", "worker"), ("ask", "approval")]
        assert asyncio.run(defined_again(steps)).steps == steps
        assert [each.id for each in il.workflows().items] == ["copy", "month"]
        assert il.delete_workflow("copy").steps == steps
        run = il.start_run("month")
        assert "run_start" in {entry.action for entry in il.get_run_timeline(run.run_id).items}


def test_a_closed_client_opens_again_when_it_is_called(store: str) -> None:
    il = Interlock(store=store)
    job = il.submit("a.b", {"n": 1})
    il.close()
    il.close()
    assert il.get_job(job.id).id == job.id
    il.close()


def test_memory_belongs_to_one_client_alone() -> None:
    with Interlock(store="memory:") as one, Interlock(store="memory:") as two:
        one.apply_policy(ALLOW)
        one.submit("a.b", {"n": 1})
        assert len(one.jobs().items) == 1
        assert two.jobs().items == ()


def test_without_any_setting_the_store_is_a_file_in_this_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Interlock() as il:
        il.apply_policy(ALLOW)
    assert (tmp_path / ".interlock" / "interlock.db").exists()


def test_an_async_client_serves_one_loop_after_another(store: str) -> None:
    ail = AsyncInterlock(store=store)

    async def submit_many() -> set[str]:
        return {job.id for job in await asyncio.gather(*(ail.submit("a.b", {"n": n}) for n in range(20)))}

    assert len(asyncio.run(submit_many()) | asyncio.run(submit_many())) == 40
    asyncio.run(ail.close())
    assert services() == 0


def test_threads_open_one_service_between_them(store: str) -> None:
    il = Interlock(store=store)
    together = threading.Barrier(8)
    found: list[str] = []

    def submit(n: int) -> None:
        together.wait()
        found.append(il.submit("a.b", {"n": n}).id)

    threads = [threading.Thread(target=submit, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 8
    assert services() == 1
    il.close()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_opens_its_own_service(store: str) -> None:
    with Interlock(store=store) as il:
        mine = il.submit("a.b", {"who": "parent"})
        child = os.fork()
        if child == 0:
            signal.alarm(60)  # a child that waits for the parent's thread would wait for ever
            theirs = il.submit("a.b", {"who": "child"})
            seen = {job.id for job in il.jobs().items}
            il.close()
            os._exit(0 if seen == {mine.id, theirs.id} else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert len(il.jobs().items) == 2


def test_a_program_that_never_closes_ends_cleanly(store: str) -> None:
    program = f"""
import asyncio, threading
from interlock import AsyncInterlock, Interlock
il, ail = Interlock(store={store!r}), AsyncInterlock(store={store!r})
threading.Thread(target=lambda: il.submit("a.b", {{"n": 1}})).start()
asyncio.run(ail.submit("a.b", {{"n": 2}}))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    with Interlock(store=store) as il:
        assert len(il.jobs().items) == 2


def test_a_store_that_cannot_be_reached_is_unavailable() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    il = Interlock(store=f"postgresql://nobody@127.0.0.1:{port}/nothing", retry=NO_RETRIES)
    with pytest.raises(Unavailable):
        il.jobs()
    assert services() == 0


async def test_a_cancelled_call_ends_and_the_service_goes_on(store: str) -> None:
    async with AsyncInterlock(store=store) as ail:
        await ail.apply_policy({"version": "v1", "default": "require_human", "rules": []})
        job = await ail.submit("a.b", {"n": 1})
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await ail.wait(job.id)
        assert (await ail.get_job(job.id)).state == "APPROVAL"


def test_a_clients_store_is_where_the_client_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients: list[Interlock] = []
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        clients.append(Interlock())
    here, there = clients
    with here, there:
        here.apply_policy(ALLOW)
        here.submit("a.b", {"n": 1})
        there.apply_policy(ALLOW)
        assert (len(here.jobs().items), len(there.jobs().items)) == (1, 0)
    for name in ("here", "there"):
        assert (tmp_path / name / ".interlock" / "interlock.db").exists()


def test_a_request_that_a_server_would_find_too_large_is_too_large_here(store: str) -> None:
    with Interlock(store=store) as il, pytest.raises(InvalidRequest) as refused:
        il.submit("a.b", {"text": "x" * 1024 * 1024})
    assert refused.value.code == "too_large"

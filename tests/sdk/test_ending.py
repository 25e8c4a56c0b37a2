"""Programs that end with something under way: it is finished or let go, and never keeps the program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HANG_SECONDS = 60
BEGINNING = """
import atexit, asyncio, threading, time
from concurrent.futures import ThreadPoolExecutor
from interlock import AsyncInterlock, Interlock, Unavailable
il = Interlock()
il.apply_policy("version: v1\\ndefault: allow\\n")
"""


def said(folder: Path, program: str, first: str = "") -> str:
    """What a program printed that ended well, and in time."""
    done = subprocess.run(
        [sys.executable, "-c", first + BEGINNING + program],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


GATED_GENERATOR = """
@il.gate("a.b")
def count():
    yield 1
    yield 2

left_over = count()
print(next(left_over))
"""
LEASE_IN_A_GENERATOR = """
def count():
    with il.lease("file"):
        yield 1

left_over = count()
print(next(left_over))
"""


@pytest.mark.parametrize("program", [GATED_GENERATOR, LEASE_IN_A_GENERATOR])
def test_a_generator_that_is_left_over_does_not_keep_the_program(tmp_path: Path, program: str) -> None:
    assert said(tmp_path, program) == "1\n"


def test_a_thread_is_served_to_its_end_after_the_main_one_is_through(tmp_path: Path) -> None:
    program = """
begun = threading.Event()

@il.gate("a.b")
def take_a_while():
    begun.set()
    time.sleep(0.3)

def work():
    take_a_while()
    print(il.jobs().items[0].state)

threading.Thread(target=work).start()
begun.wait()
"""
    assert said(tmp_path, program) == "SUCCEEDED\n"


def test_an_async_client_in_a_thread_of_its_own_is_served_to_its_end_too(tmp_path: Path) -> None:
    program = """
begun = threading.Event()

async def work():
    ail = AsyncInterlock()
    async with ail.lease("file"):
        begun.set()
        await asyncio.sleep(0.3)
    print(len((await ail.leases(live=True)).items))

threading.Thread(target=lambda: asyncio.run(work())).start()
begun.wait()
"""
    assert said(tmp_path, program) == "0\n"


def test_an_executor_that_nobody_shut_down_does_not_keep_the_program(tmp_path: Path) -> None:
    program = """
executor = ThreadPoolExecutor()
print(executor.submit(il.submit, "a.b", {}).result().state)
"""
    assert said(tmp_path, program) == "PENDING\n"


def test_a_call_as_the_program_ends_is_answered(tmp_path: Path) -> None:
    program = """
atexit.register(lambda: print(il.submit("a.b", {}).state))
"""
    assert said(tmp_path, program) == "PENDING\n"


def test_who_calls_after_the_end_is_told_so(tmp_path: Path) -> None:
    program = """
def late():
    try:
        il.submit("a.b", {})
    except Unavailable as why:
        print(why)
"""
    # Of these the last that was registered is called first.
    first = "import atexit\natexit.register(lambda: late())\n"
    assert "the program is ending" in said(tmp_path, program, first)


def test_a_thread_that_makes_its_first_call_after_the_main_one_is_through_is_served(tmp_path: Path) -> None:
    program = """
il.close()

def work():
    while threading.main_thread().is_alive():
        time.sleep(0.01)
    print(il.submit("a.b", {}).state, len(il.jobs().items))
    asyncio.run(work_in_a_loop())

async def work_in_a_loop():
    async with AsyncInterlock() as ail:
        print((await ail.submit("a.b", {})).state)

threading.Thread(target=work).start()
"""
    assert said(tmp_path, program) == "PENDING 1\nPENDING\n"

"""What an editor knows of the SDK: mypy and pyright keep the types of what is called, and find a wrong argument."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
HANG_SECONDS = 300
MARK = "# wrong"

# `assert_type` fails where a type was lost, and each marked line has one mistake that must be found.
PROGRAM = """
from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import assert_type

from interlock import AsyncInterlock, Committed, Effect, HeldLease, Interlock, NotCommitted, Unknown
from interlock.wire.leases import Lease, Predecessor

il = Interlock()
ail = AsyncInterlock()


def ask_the_bank(effect: Effect) -> Committed | NotCommitted | Unknown:
    return Committed({"receipt": effect.downstream_key})


def no_finding(effect: Effect) -> str:
    return effect.downstream_key


@il.gate("pay", key=lambda invoice, **_: invoice, reconcile=ask_the_bank, not_done=(ConnectionRefusedError,))
def pay(invoice: str, cents: int, *, currency: str = "EUR") -> str:
    return invoice


@il.gate("pay")
async def pay_async(invoice: str, cents: int) -> bytes:
    return invoice.encode()


@il.gate("read", repeatable=True)
def pages(count: int) -> Iterator[str]:
    yield str(count)


@ail.gate("read")
async def pages_async(count: int) -> AsyncIterator[str]:
    yield str(count)


class Account:
    @il.gate("close")
    def close(self, reason: str) -> int:
        return len(reason)

    @ail.gate("close")
    async def close_async(self, reason: str) -> int:
        return len(reason)

    @il.effect(key=lambda txn, **_: f"refund:{txn}")
    def refund(self, txn: str, cents: int) -> float:
        return 1.0


def refund(txn: str, cents: int, note: str = "", *, downstream_key: str = "") -> dict[str, int]:
    return {txn: cents}


async def refund_async(txn: str, cents: int) -> tuple[str, int]:
    return txn, cents


def gated() -> None:
    assert_type(pay("i-1", 500, currency="USD"), str)
    assert_type([page for page in pages(3)], list[str])
    assert_type(Account().close("moved"), int)
    assert_type(Account().refund("t", 1), float)
    pay(1, 500)  # wrong
    pay("i-1")  # wrong
    pay("i-1", "500")  # wrong
    pay("i-1", 500, curency="USD")  # wrong
    pages("3")  # wrong
    Account().close()  # wrong
    Account().refund("t", "1")  # wrong
    il.gate("pay", keys=str)  # wrong
    il.gate(3)  # wrong
    il.gate("pay", not_done=("TimeoutError",))  # wrong
    il.gate("pay", reconcile=no_finding)  # wrong


def once() -> None:
    assert_type(il.once("r", refund, "t", 3), dict[str, int])
    assert_type(il.once("r", refund, txn="t", cents=3), dict[str, int])
    assert_type(il.once("r", refund, "t", 3, ttl=120, reconcile=ask_the_bank, grant="finance.refund"), dict[str, int])
    assert_type(il.once("r", Account().refund, "t", 3), float)
    il.once("r", refund, "t", "3")  # wrong
    il.once("r", refund, "t")  # wrong
    il.once("r", refund, "t", 3, "note", 4)  # wrong
    il.once("r", refund, "t", amount=3)  # wrong
    il.once("r", refund, "t", "3", ttl=120)  # wrong
    il.once("r", refund, "t", 3, tll=120)  # wrong
    il.once("r", refund, "t", 3, reconcile=no_finding)  # wrong
    il.once(4711, refund, "t", 3)  # wrong
    il.once("r", "refund", "t", 3)  # wrong


async def awaited() -> None:
    assert_type(await pay_async("i-1", 500), bytes)
    assert_type([page async for page in pages_async(3)], list[str])
    assert_type(await Account().close_async("moved"), int)
    assert_type(await ail.once("r", refund_async, "t", 3), tuple[str, int])
    assert_type(await ail.once("r", refund_async, "t", cents=3), tuple[str, int])
    assert_type(await ail.once("r", refund_async, "t", 3, ttl=1), tuple[str, int])
    await pay_async("i-1", "500")  # wrong
    pages_async("3")  # wrong
    await Account().close_async(1)  # wrong
    await ail.once("r", refund_async, "t", "3")  # wrong
    await ail.once("r", refund_async, "t", "3", ttl=1)  # wrong
    await ail.once("r", refund_async, "t", 3, 4)  # wrong


def held() -> None:
    with il.lease("repo:billing/**", ttl=60, session="left") as lease:
        assert_type(lease, HeldLease)
        assert_type(lease.fence, int)
        assert_type(lease.lost, bool)
        assert_type(lease.lease_id, str)
        assert_type(lease.predecessor, Predecessor | None)
        assert_type(lease.checkpoint(["renamed"], open_questions=["tests?"]), Lease)
        assert_type(lease.renew(progress=1).fence, int)
        il.once("r", refund, "t", 3, lease=lease)
        lease.checkpoint()  # wrong
        lease.checkpoint(1, question="?")  # wrong
        lease.hand_off("mia")  # wrong
        lease.fense  # wrong
    with il.admit("nightly", input={"month": 1}) as run:
        assert_type(run.run_id, str)
        assert_type(run.complete({"rows": 3}).state, str)
        run.checkpoint(1)  # wrong
    il.lease("repo:a", seconds=60)  # wrong
    il.admit()  # wrong


async def held_async() -> None:
    async with ail.lease("repo:billing/**") as lease:
        assert_type(await lease.checkpoint(["renamed"]), Lease)
        assert_type(lease.fence, int)
        await lease.checkpoint()  # wrong
    async with ail.admit("nightly") as run:
        assert_type((await run.renew()).run_id, str)
        await run.complete({}, {})  # wrong
"""


def mypy(*files: Path) -> dict[int, str]:
    """What mypy finds in strict mode, by line."""
    done = subprocess.run(
        [BIN / "mypy", "--strict", "--no-incremental", "--cache-dir", "/dev/null", "--output", "json",
         "--python-executable", sys.executable, *files],
        cwd=files[0].parent, capture_output=True, text=True, timeout=HANG_SECONDS,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {
        each["line"]: f"{each['file']}: {each['message']}" for each in found if each["severity"] == "error"
    }


def pyright(*files: Path) -> dict[int, str]:
    """What pyright finds as it is set up by default, by line."""
    settings = {"typeCheckingMode": "standard", "pythonVersion": "3.11", "reportMissingModuleSource": False}
    project = files[0].parent / "pyrightconfig.json"
    project.write_text(json.dumps(settings))
    done = subprocess.run(
        [BIN / "basedpyright", "--outputjson", "--project", project, "--pythonpath", sys.executable],
        cwd=files[0].parent, capture_output=True, text=True, timeout=HANG_SECONDS,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["generalDiagnostics"]
    return {
        each["range"]["start"]["line"] + 1: f"{each['file']}: {each['message']}"
        for each in found
        if each["severity"] == "error"
    }


CHECKERS = pytest.mark.parametrize("check", [mypy, pyright])


@CHECKERS
def test_every_wrong_argument_is_found_and_no_type_is_lost(
    check: Callable[..., dict[int, str]], tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    wrong = {place for place, line in enumerate(PROGRAM.splitlines(), start=1) if line.endswith(MARK)}
    assert len(wrong) > 30
    found = check(program)
    assert {place: found[place] for place in found.keys() - wrong} == {}
    assert {PROGRAM.splitlines()[place - 1] for place in wrong - found.keys()} == set()


@CHECKERS
def test_the_examples_are_typed(check: Callable[..., dict[int, str]], tmp_path: Path) -> None:
    """As they lie in a user's folder: beside nothing of this repository."""
    assert len(EXAMPLES) >= 5
    copies = [tmp_path / example.name for example in EXAMPLES]
    for example, copy in zip(EXAMPLES, copies, strict=True):
        copy.write_text(example.read_text())
    assert check(*copies) == {}

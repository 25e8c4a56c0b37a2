"""The gated functions that the documentation shows do what the text around them says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from interlock import (
    Ambiguous,
    Committed,
    Conflict,
    Interlock,
    NotCommitted,
    Unknown,
)
from interlock.wire.effects import Effect

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def shown(page: str, containing: str) -> str:
    """The one block of Python on a page that contains this."""
    (block,) = [block for block in _BLOCK.findall((ROOT / page).read_text()) if containing in block]
    return block


class Bank:
    """The bank of the pages: it counts, and breaks after it paid if it is told to."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.paid: list[str] = []
        self.raises: Exception | None = None

    def transfer(self, invoice: str, amount_cents: int, currency: str) -> str:
        self.paid.append(f"{invoice} {amount_cents} {currency}")
        if self.raises is not None:
            raise self.raises
        return f"receipt for {invoice}"

    def post(self, where: str, invoice: str, amount_cents: int, *, idempotency_key: str) -> Any:
        assert where == "/transfers"
        self.keys.append(idempotency_key)
        return SimpleNamespace(receipt=self.transfer(invoice, amount_cents, "EUR"))


@pytest.fixture
def il(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Interlock]:
    for name in ("INTERLOCK_URL", "INTERLOCK_KEY", "INTERLOCK_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    with Interlock() as client:
        client.apply_policy("version: v1\ndefault: allow\n")
        yield client


def test_pay_of_the_readme_pays_once_and_is_in_doubt_after_it_broke(il: Interlock) -> None:
    bank = Bank()
    names: dict[str, Any] = {"bank": bank}
    exec(shown("README.md", "@il.gate"), names)
    pay = names["pay"]
    assert [pay("i-1", 500), pay("i-1", 500)] == ["receipt for i-1"] * 2
    with pytest.raises(Conflict):
        pay("i-1", 501)
    bank.raises = TimeoutError("no answer")
    with pytest.raises(TimeoutError):
        pay("i-2", 500)
    with pytest.raises(Ambiguous):
        pay("i-2", 500)
    assert bank.paid == ["i-1 500 EUR", "i-2 500 EUR"]
    names["il"].close()


def test_the_gate_of_the_howto_runs_again_what_was_refused_and_asks_the_bank_about_doubt(
    il: Interlock,
) -> None:
    bank, found = Bank(), list[Any]()

    def ask_the_bank(effect: Effect) -> Any:
        assert effect.downstream_key in bank.keys
        return found.pop()

    names: dict[str, Any] = {"bank": bank, "il": il, "ask_the_bank": ask_the_bank}
    exec(shown("docs/howto/gate-a-function.md", "reconcile=ask_the_bank"), names)
    pay = names["pay"]
    bank.raises = ConnectionRefusedError("closed")
    with pytest.raises(ConnectionRefusedError):
        pay("i-1", 500)
    bank.raises = TimeoutError("no answer")
    with pytest.raises(TimeoutError):
        pay("i-1", 500)
    bank.raises = None
    found += [NotCommitted(), Unknown()]
    with pytest.raises(Ambiguous):
        pay("i-1", 500)
    assert [pay("i-1", 500), pay("i-1", 500)] == ["receipt for i-1"] * 2
    bank.raises = TimeoutError("no answer")
    with pytest.raises(TimeoutError):
        pay("i-2", 500)
    found += [Committed("receipt of the bank")]
    assert pay("i-2", 500) == "receipt of the bank"
    assert len(bank.paid) == 4
    assert len(set(bank.keys)) == 2  # one for each intent, whatever the attempt

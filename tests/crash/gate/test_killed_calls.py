"""The README's `pay`, killed at every statement boundary of the gate: the bank is called at most once per intent.

Each killed call is made again at once, after its lease, and from another process, embedded and through a server,
on both stores; then the bank or a person says what happened, and there is exactly one more attempt, or none.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock import Ambiguous, Busy, Committed, Interlock, NotCommitted
from interlock.wire.effects import Effect
from tests.crash.effects.counting_remote import Remote
from tests.crash.gate import payer_program
from tests.crash.killed_statements import HANG_SECONDS, PayerProgram
from tests.harness.server import InterlockServer, clean_env
from tests.harness.soak import dose

POLICY = "version: v1\ndefault: allow\n"
BOUNDARIES = 20
PAYERS = "tests.crash.gate.payer_program"


class CallSite:
    """Where the gated function is called: payers in other processes, this one, and a person who decides."""

    def __init__(self, il: Interlock, person: Interlock, payers: PayerProgram, remote: Remote) -> None:
        self.il, self.person, self.payers, self.remote = il, person, payers, remote


@pytest.fixture
def remote() -> Iterator[Remote]:
    with Remote() as opened:
        yield opened


@pytest.fixture(
    params=["embedded on SQLite", "embedded on PostgreSQL", "served on SQLite", "served on PostgreSQL"]
)
def site(
    request: pytest.FixtureRequest, serve: Callable[..., InterlockServer], remote: Remote
) -> Iterator[CallSite]:
    kind, _, engine = str(request.param).partition(" on ")
    store = request.getfixturevalue("sqlite_url" if engine == "SQLite" else "postgres_url")
    if kind == "embedded":
        with Interlock(store=store) as il:
            il.apply_policy(POLICY)
            payers = PayerProgram(PAYERS, store, "", str(remote.port))
            yield CallSite(il, il, payers, remote)
            payers.close()
        return
    server = serve(store)
    admin = server.create_key("root", roles="admin,review").key
    agent = server.create_key("payer", kind="agent", roles="submit").key
    with Interlock(server.url, admin) as person, Interlock(server.url, agent) as il:
        person.apply_policy(POLICY)
        payers = PayerProgram(PAYERS, server.url, agent, str(remote.port))
        yield CallSite(il, person, payers, remote)
        payers.close()


def test_a_call_killed_at_any_statement_pays_at_most_once(site: CallSite) -> None:
    remote, pay = site.remote, payer_program.payment(site.il, site.remote.port)
    whole = site.payers.run("undisturbed")
    assert whole is not None
    assert whole["returned"] == "ok 100"
    killed = _kill_at_every_boundary(site, whole["statements"])
    for invoice in killed:
        _assert_repeats_as_the_table_says(site, site.payers.run(invoice), invoice)
    time.sleep(payer_program.LEASE_SECONDS + 0.5)
    doubtful: list[str] = []
    for invoice in killed:
        again = site.payers.run(invoice)
        assert again is not None
        _assert_repeats_as_the_table_says(site, again, invoice)
        assert again.get("raised") != "Busy", "its lease has run out"
        if again.get("raised") == "Ambiguous":
            doubtful.append(invoice)
    assert len(doubtful) >= 3, "too few died while the call was under way to mean anything"
    for place, invoice in enumerate(doubtful):
        before = remote.charges[invoice]
        with pytest.raises(Ambiguous):
            pay(invoice, 100)
        _settle(site, invoice, by_reconcile=place % 2 == 0)
        assert remote.charges[invoice] == 1, f"{invoice} was paid {before} times before"
    for invoice in killed:
        assert pay(invoice, 100) in ("ok 100", "found")
    assert {remote.charges[invoice] for invoice in ("undisturbed", *killed)} == {1}


def test_a_call_frozen_past_its_lease_is_lost_and_pays_once(site: CallSite) -> None:
    payers = subprocess.Popen(
        [sys.executable, "-c", FROZEN, *_words(site)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(payer_program.__file__).parents[3],
        env=clean_env(),
    )
    assert payers.stdout
    assert payers.stdout.readline() == "paid\n"
    os.kill(payers.pid, signal.SIGSTOP)
    pay = payer_program.payment(site.il, site.remote.port)
    deadline = time.monotonic() + HANG_SECONDS
    while True:
        assert time.monotonic() < deadline
        try:
            pay("frozen", 100)
        except Busy:
            time.sleep(0.2)
        except Ambiguous:
            break
    os.kill(payers.pid, signal.SIGCONT)
    said = payers.stdout.read().split()
    payers.wait(HANG_SECONDS)
    payers.stdout.close()
    assert said == ["lost", "True", "Ambiguous"]
    assert site.remote.charges == {"frozen": 1}
    with pytest.raises(Ambiguous):
        pay("frozen", 100)


FROZEN = """
import http.client, sys, time
from interlock import Interlock, InterlockError
place, key, port = sys.argv[1], sys.argv[2] or None, int(sys.argv[3])
il = Interlock(place, key) if place.startswith("http") else Interlock(store=place)

@il.gate("finance.payment.execute", env="production", key=lambda invoice, **_: invoice, lease=2)
def pay(invoice: str, amount_cents: int) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", "/" + invoice)
    said = connection.getresponse().read().decode()
    print("paid", flush=True)
    stopped = time.monotonic()
    while not il.current().lost and time.monotonic() < stopped + 60:
        time.sleep(0.05)
    print("lost", il.current().lost, flush=True)
    return said

try:
    pay("frozen", 100)
    print("returned", flush=True)
except InterlockError as outcome:
    print(type(outcome).__name__, flush=True)
"""


def _words(site: CallSite) -> list[str]:
    place = site.il.url or site.il.store or ""
    return [place, site.il.session.key or "", str(site.remote.port)]


def _kill_at_every_boundary(site: CallSite, statements: int) -> list[str]:
    """Invoices whose payers were killed at statements spread over the whole path."""
    count = min(statements, dose(BOUNDARIES))
    fatal = sorted({1 + place * (statements - 1) // max(1, count - 1) for place in range(count)})
    ends = {f"invoice-{number}": site.payers.run(f"invoice-{number}", fatal=number) for number in fatal}
    # A path may be a few statements shorter the next time; a payer that got to its end is one that paid.
    assert sum(end is None for end in ends.values()) >= len(ends) - 2
    return [invoice for invoice, end in ends.items() if end is None]


def _assert_repeats_as_the_table_says(site: CallSite, end: dict[str, Any] | None, invoice: str) -> None:
    assert end is not None
    assert site.remote.charges[invoice] <= 1
    if "returned" in end:
        assert end["returned"] == "ok 100"
        assert site.remote.charges[invoice] == 1
    else:
        assert end["raised"] in ("Busy", "Ambiguous")


def _settle(site: CallSite, invoice: str, *, by_reconcile: bool) -> None:
    """The bank, or a person who asked it, says what happened: then it is done, or tried exactly once more."""
    happened = bool(site.remote.charges[invoice])
    if by_reconcile:

        def ask(effect: Effect) -> Committed | NotCommitted:
            return Committed("found") if happened else NotCommitted()

        said = payer_program.payment(site.il, site.remote.port, reconcile=ask)(invoice, 100)
    else:
        with pytest.raises(Ambiguous) as doubt:
            payer_program.payment(site.il, site.remote.port)(invoice, 100)
        outcome = "committed" if happened else "not_committed"
        effect = f"call:{doubt.value.job_id}"
        site.person.resolve_effect(effect, outcome, evidence="asked the bank", result="found")
        said = payer_program.payment(site.il, site.remote.port)(invoice, 100)
    assert said == ("found" if happened else "ok 100")

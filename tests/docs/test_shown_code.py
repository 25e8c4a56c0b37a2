"""The Python that the pages show runs as shown, with the installed wheel, and does what the text around it says.

A block stands between what its reader would have (a bank, a list of steps) and what must then be true.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.harness.installation import Installation
from tests.harness.server import InterlockServer

ROOT = Path(__file__).parents[2]
# Followed word for word by a test of its own: share-a-repository.md.
HOWTOS = [path for path in (ROOT / "docs/howto").glob("*.md") if path.name != "share-a-repository.md"]
PAGES = [ROOT / "README.md", ROOT / "docs/start.md", *sorted(HOWTOS)]
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Run by a test of its own: the five lines of the README.
ELSEWHERE = ("@Interlock().gate(",)


class Shown(NamedTuple):
    """The one block of a page that contains some words, what comes before it, and what must be true after it."""

    page: str
    containing: str
    before: str
    after: str
    prints: str = ""


BANK = """
from types import SimpleNamespace

class Bank:
    keys, paid, raises = [], [], None
    def transfer(self, invoice, amount_cents, currency):
        self.paid.append(f"{invoice} {amount_cents} {currency}")
        if self.raises:
            raise self.raises
        return f"receipt for {invoice}"
    def post(self, where, body, amount_cents=0, *, idempotency_key):
        self.keys.append(idempotency_key)
        if where == "/transfers":
            return SimpleNamespace(receipt=self.transfer(body, amount_cents, "EUR"))
        self.paid.append(body["txn"])
        if self.raises:
            raise self.raises
        status = 402 if body["cents"] > 5000 else 200
        return SimpleNamespace(status=status, raise_for_status=lambda: None, json=lambda: {"id": f"r-{body['txn']}"})
    def refund(self, txn, cents, *, idempotency_key):
        self.keys.append(idempotency_key)
        return {"receipt": f"r-{txn}"}
    def find(self, *, idempotency_key):
        assert idempotency_key in self.keys
        return self.found
    def is_final(self, moment):
        return True

bank = Bank()

def raised(kind, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")
"""
EMBEDDED = "from interlock import Interlock\nil = Interlock()\n"

SHOWN = (
    Shown(
        "README.md",
        "@il.gate",
        BANK,
        """
from interlock import Ambiguous, Conflict
assert [pay("i-1", 500), pay("i-1", 500)] == ["receipt for i-1"] * 2
raised(Conflict, pay, "i-1", 501)
bank.raises = TimeoutError("no answer")
raised(TimeoutError, pay, "i-2", 500)
raised(Ambiguous, pay, "i-2", 500)
assert bank.paid == ["i-1 500 EUR", "i-2 500 EUR"]
""",
    ),
    Shown(
        "docs/start.md",
        "def refund(order",
        "",
        """
assert refund("A-17", 4_900) == "refunded 49.00 for A-17"
assert len(il.jobs().items) == 1
""",
        prints="refunded 49.00 for A-17\n",
    ),
    Shown(
        "docs/howto/gate-a-function.md",
        "reconcile=ask_the_bank",
        BANK
        + EMBEDDED
        + """
from interlock import Ambiguous, Committed, NotCommitted, Unknown
found = []
def ask_the_bank(effect):
    assert effect.downstream_key in bank.keys
    return found.pop()
""",
        """
bank.raises = ConnectionRefusedError("closed")
raised(ConnectionRefusedError, pay, "i-1", 500)
bank.raises = TimeoutError("no answer")
raised(TimeoutError, pay, "i-1", 500)
bank.raises = None
found += [NotCommitted(), Unknown()]
raised(Ambiguous, pay, "i-1", 500)
assert [pay("i-1", 500), pay("i-1", 500)] == ["receipt for i-1"] * 2
bank.raises = TimeoutError("no answer")
raised(TimeoutError, pay, "i-2", 500)
found += [Committed("receipt of the bank")]
assert pay("i-2", 500) == "receipt of the bank"
assert len(bank.paid) == 4
assert len(set(bank.keys)) == 2  # one for each intent, whatever the attempt
""",
    ),
    Shown(
        "docs/howto/pay-once.md",
        "raise NotDone",
        BANK + 'txn, cents = "4711", 1200\n',
        """
from interlock import Ambiguous
assert receipt == il.once("refund:4711", refund, "4711", 1200) == {"receipt": "r-4711"}
assert bank.paid == ["4711"]
raised(NotDone, il.once, "refund:4712", refund, "4712", 9000)
assert il.get_effect("refund:4712").state == "FAILED"
bank.raises = TimeoutError("no answer")
raised(TimeoutError, il.once, "refund:4713", refund, "4713", 100)
raised(Ambiguous, il.once, "refund:4713", refund, "4713", 100)
""",
    ),
    Shown(
        "docs/howto/pay-once.md",
        "effect_scope",
        BANK + EMBEDDED + 'txn, cents = "4711", 1200\n',
        """
assert effect.downstream_key == bank.keys[0]
with il.effect_scope("refund:4711", request={"txn": "4711", "cents": 1200}) as again:
    assert again.replayed
    assert again.result == {"receipt": "r-4711"}
""",
    ),
    Shown(
        "docs/howto/pay-once.md",
        "def ask_the_bank",
        BANK
        + EMBEDDED
        + """
txn, cents = "4711", 1200
def refund(txn, cents, *, downstream_key):
    bank.post("/refunds", {"txn": txn, "cents": cents}, idempotency_key=downstream_key)
bank.raises = TimeoutError("no answer")
raised(TimeoutError, il.once, "refund:4711", refund, "4711", 1200)
bank.found = SimpleNamespace(id="r-1", url="https://bank.example/r-1")
""",
        """
assert il.get_effect("refund:4711").state == "COMMITTED"
assert il.once("refund:4711", refund, "4711", 1200) == {"receipt": "r-1"}
assert bank.paid == ["4711"]
""",
    ),
    Shown(
        "docs/howto/pay-once.md",
        'grant="finance.refund"',
        EMBEDDED
        + """
from interlock import Denied
paid = []
def refund(txn, cents): paid.append(txn)
txn, cents = "4711", 1200
try:
    il.once("refund:4711", refund, "4711", 1200, grant="finance.refund")
    raise AssertionError("it needs a grant")
except Denied:
    il.issue_grant("finance.refund", pins={"cents": {"max": 5000}})
""",
        'assert paid == ["4711"]\n',
    ),
    Shown(
        "docs/howto/grants-and-exec.md",
        "il.granted",
        EMBEDDED + 'txn = "4711"\nil.issue_grant("refund", uses=2, pins={"amount_cents": {"max": 500}})\n',
        'assert use.claimed\nassert not il.claim_grant("refund", args={"amount_cents": 400}).claimed\n',
    ),
    Shown(
        "docs/howto/admit-runs.md",
        "il.admit",
        "parts, written = [1, 2], []\ndef write(part, fence): written.append((part, fence))\n",
        """
assert written == [(1, held.fence), (2, held.fence)]
(run,) = il.runs().items
assert (run.workflow, run.state) == ("nightly-report", "succeeded")
""",
    ),
    Shown(
        "docs/howto/receive-events.md",
        "page.next_after",
        """
import os, pathlib, signal
from interlock import Interlock
jobs = [Interlock().submit("knowledge.read").id for _ in range(3)]
subjects = []

class Died(Exception): ...

def keep(event):
    subjects.append(event.subject)
    if set(subjects) >= set(jobs):
        raise Died

try:  # first with something to do for each event
    exec(pathlib.Path("page.py").read_text().replace("...  # keep", "keep(event)  # keep"))
    raise AssertionError("it ended by itself")
except Died:
    assert [each for each in subjects if each in jobs] == jobs  # every event once, in order
after = 0

def look(*_):
    if after:  # it got the events, and asks for those that follow
        os._exit(0)

signal.signal(signal.SIGALRM, look)
signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
""",
        'raise AssertionError("it ended by itself")\n',
    ),
    Shown(
        "docs/howto/receive-events.md",
        "def is_genuine",
        "",
        """
import secrets
from interlock.rooms.events.signing import signed_headers, spell_secret
BODY = b'{"type":"dev.interlock.approval.approved"}'
ours, older, other = (spell_secret(secrets.token_bytes(32)) for _ in range(3))
now = int(time.time())
headers = signed_headers([ours, older], "evt_1", now, BODY)
assert is_genuine(ours, headers, BODY)
assert is_genuine(older, headers, BODY)  # while secrets are rotated
assert not is_genuine(other, headers, BODY)
assert not is_genuine(ours, headers, BODY + b" ")
assert not is_genuine(ours, {**headers, "webhook-id": "evt_2"}, BODY)
assert not is_genuine(ours, signed_headers([ours], "evt_1", now - 400, BODY), BODY)
""",
    ),
    Shown(
        "docs/howto/take-over.md",
        "predecessor.checkpoint",
        EMBEDDED
        + """
import pathlib
from types import SimpleNamespace
steps, ran = [SimpleNamespace(number=number, log=f"log {number}") for number in range(4)], []

class Died(Exception): ...

def run(step):
    ran.append(step.number)
    if ran == [0, 1, 2]:
        raise Died

try:  # the first worker, whose lease runs out soon after its death
    exec(pathlib.Path("page.py").read_text().replace("ttl_seconds=60", "ttl_seconds=1"))
    raise AssertionError("it did not die")
except Died:
    pass
""",
        "assert ran == [0, 1, 2, 2, 3]  # the step that was under way is repeated, and no other\n",
    ),
    Shown(
        "docs/howto/write-a-worker.md",
        "@worker.handler",
        """
import os, signal, threading, time
from interlock import Interlock
class Bank:
    class Closed(Exception): ...
    class NoSuchAccount(Exception): ...
    tries = []
    def pay(self, payload, *, idempotency_key, permit):
        self.tries.append(payload["to"])
        assert permit
        if payload["to"] == "nobody":
            raise self.NoSuchAccount("nobody")
        if payload["to"] == "late" and self.tries.count("late") == 1:
            raise self.Closed("opens at nine")
        return f"r-{idempotency_key}"
bank, il = Bank(), Interlock()
jobs = [il.submit("finance.payment.execute", {"to": to}).id for to in ("acme", "late", "nobody")]
def stop():
    while any(il.get_job(job).state in ("PENDING", "RUNNING") for job in jobs):
        time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=stop).start()
""",
        """
assert [il.get_job(job).state for job in jobs] == ["SUCCEEDED", "SUCCEEDED", "FAILED"]
assert il.get_job(jobs[0]).result == {"receipt": f"r-{jobs[0]}"}
assert sorted(bank.tries) == ["acme", "late", "late", "nobody"]
""",
    ),
    Shown(
        "docs/howto/write-a-worker.md",
        "verify_permit(token",
        EMBEDDED
        + """
import os, httpx2
got = httpx2.get
httpx2.get = lambda url: got(url.replace("https://interlock.example.com", os.environ["INTERLOCK_URL"]))
il.apply_policy("version: v1\\ndefault: allow\\n")
il.submit("finance.payment.execute", {"to": "acme"})
(held,) = il.claim_jobs(["finance.payment.execute"])
token, expected = held.permit, held.job_hash
""",
        "assert (permit.job_id, permit.fence) == (held.id, held.fence)\n",
    ),
)


@pytest.fixture
def folder(installed: Installation, tmp_path: Path) -> Path:
    """A folder with a store where everything is allowed."""
    ready = installed.shell(
        tmp_path, "printf 'version: v1\\ndefault: allow\\n' > policy.yaml; interlock policy apply policy.yaml"
    )
    assert ready.returncode == 0, ready.stderr
    return tmp_path


@pytest.fixture
def at_a_server(installed: Installation, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Where a server of the test's own is, and a key of somebody who may submit and work."""
    started = InterlockServer(
        f"sqlite:///{tmp_path}/server.db", command=(str(installed.programs / "interlock"),)
    ).start()
    roles = "submit,work,admin"
    yield {"INTERLOCK_URL": started.url, "INTERLOCK_KEY": started.create_key("ann", roles=roles).key}
    started.close()


@pytest.mark.parametrize("shown", SHOWN, ids=[f"{shown.page}: {shown.containing}" for shown in SHOWN])
def test_the_code_shown_runs(
    shown: Shown, installed: Installation, folder: Path, request: pytest.FixtureRequest
) -> None:
    (block,) = [
        block for block in _BLOCK.findall((ROOT / shown.page).read_text()) if shown.containing in block
    ]
    (folder / "page.py").write_text(block)
    needs_server = "https://interlock.example.com" in block
    place = request.getfixturevalue("at_a_server") if needs_server else None
    said = installed.python(folder, shown.before + block + shown.after, more=place)
    assert (said.returncode, said.stdout) == (0, shown.prints), said.stdout + said.stderr


def test_every_block_of_python_is_run() -> None:
    known = [(shown.page, shown.containing) for shown in SHOWN]
    assert not [
        f"{page.relative_to(ROOT)}:\n{block}"
        for page in PAGES
        for block in _BLOCK.findall(page.read_text())
        if not any(words in block for words in ELSEWHERE)
        and not any(str(page.relative_to(ROOT)) == named and words in block for named, words in known)
    ]

"""What the how-tos about taking over, events and gated commands show does what the text around it says."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from interlock import Interlock
from interlock.cli.execution.tasks import read_tasks
from interlock.kernel.codec.located import plain
from interlock.kernel.codec.located_yaml import read_yaml
from interlock.rooms.events.signing import signed_headers, spell_secret
from tests.docs.test_shown_code import ROOT, shown

BODY = b'{"type":"dev.interlock.approval.approved"}'


class Died(Exception):
    """The program ends here."""


@pytest.fixture
def il(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Interlock]:
    for name in ("INTERLOCK_URL", "INTERLOCK_KEY", "INTERLOCK_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    with Interlock() as client:
        client.apply_policy("version: v1\ndefault: allow\n")
        yield client


def test_a_successor_repeats_at_most_the_step_that_was_under_way(il: Interlock) -> None:
    program = shown("docs/howto/take-over.md", "acquire_lease").replace("ttl_seconds=60", "ttl_seconds=1")
    ran: list[int] = []
    names: dict[str, Any] = {
        "il": il,
        "steps": [SimpleNamespace(number=number, log=f"log {number}") for number in range(4)],
        "run": dying_at(2, ran),
    }
    with pytest.raises(Died):
        exec(program, names)
    exec(program, names)
    assert ran == [0, 1, 2, 2, 3]


def dying_at(number: int, ran: list[int]) -> Callable[[Any], None]:
    """Runs steps, and dies once in this one."""

    def run(step: Any) -> None:
        ran.append(step.number)
        if ran.count(number) == 1 and step.number == number:
            raise Died

    return run


def test_a_reader_of_pages_gets_every_event_once_and_in_order(il: Interlock) -> None:
    jobs = [il.submit("knowledge.read").id for _ in range(3)]
    subjects: list[str] = []

    def keep(event: Any) -> None:
        subjects.append(event.subject)
        if set(subjects) >= set(jobs):
            raise Died

    program = shown("docs/howto/receive-events.md", "next_after").replace(
        "...  # keep", "keep(event)  # keep"
    )
    names: dict[str, Any] = {"keep": keep}
    with pytest.raises(Died):
        exec(program, names)
    names["il"].close()
    assert [each for each in subjects if each in jobs] == jobs


def test_the_check_by_hand_takes_what_a_webhook_signs_and_nothing_else() -> None:
    names: dict[str, Any] = {}
    exec(shown("docs/howto/receive-events.md", "is_genuine"), names)
    is_genuine = names["is_genuine"]
    ours, older, other = (spell_secret(secrets.token_bytes(32)) for _ in range(3))
    now = int(time.time())
    headers = signed_headers([ours, older], "evt_1", now, BODY)
    assert is_genuine(ours, headers, BODY)
    assert is_genuine(older, headers, BODY)
    assert not is_genuine(other, headers, BODY)
    assert not is_genuine(ours, headers, BODY + b" ")
    assert not is_genuine(ours, {**headers, "webhook-id": "evt_2"}, BODY)
    assert not is_genuine(ours, signed_headers([ours], "evt_1", now - 400, BODY), BODY)


def test_the_tasks_on_the_page_about_gated_commands_are_read() -> None:
    text = (ROOT / "docs/howto/grants-and-exec.md").read_text().split("```yaml\n")[1].partition("```")[0]
    tasks = read_tasks(plain(read_yaml(text).root))
    assert list(tasks) == ["deploy"]
    assert tasks["deploy"].approval.groups == ("ops",)

"""`interlock doctor`: each thing it can find, made to happen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from interlock import Interlock
from tests.cli.aged_store import age
from tests.cli.terminal import POLICY, Said, Terminal
from tests.harness.nats import NatsServer
from tests.harness.server import InterlockServer

RELEASED = "knowledge.read"
BROKEN_RULE = """\
version: v1
default: deny
rules:
  - {id: broken, when: {topic: knowledge.read}, decision: throttle}
"""


@pytest.fixture
def nats() -> Iterator[NatsServer]:
    """A NATS server of the test's own."""
    server = NatsServer().start()
    yield server
    server.close()


def store_of(terminal: Terminal) -> Interlock:
    return Interlock(store=f"sqlite:///{terminal.folder}/.interlock/interlock.db")


def found(said: Said, about: str) -> list[dict[str, Any]]:
    """What the doctor said about one thing, besides that it is well."""
    return [each for each in said.json["findings"] if each["about"] == about and each["level"] != "ok"]


def one(terminal: Terminal, about: str) -> dict[str, Any]:
    (finding,) = found(terminal("doctor", "--json"), about)
    return finding


def test_requests_that_wait_for_more_than_an_hour_are_noted_with_the_oldest(
    policy_terminal: Terminal,
) -> None:
    policy_terminal.submit()
    assert found(policy_terminal("doctor", "--json"), "approvals") == []
    age(policy_terminal.folder, "jobs", hours=2)
    policy_terminal.submit()
    finding = one(policy_terminal, "approvals")
    assert (finding["level"], finding["next_step"]) == ("note", "interlock approvals")
    assert "2 requests waiting" in finding["text"]
    assert finding["since"] is not None


def test_requests_that_nobody_can_decide_are_told_together_where_they_want_the_same(
    policy_terminal: Terminal,
) -> None:
    oldest, *_ = [policy_terminal.submit("finance.payment.execute", 20_000 + number) for number in range(3)]
    finding = one(policy_terminal, "people")
    assert (
        finding["text"]
        == f"{oldest['id']} needs 2 people of finance; nobody may decide it (and 2 more like it)"
    )
    assert finding["since"] == oldest["approval"]["requested_at"]


def test_an_owner_who_is_nobody_here_is_noted(policy_terminal: Terminal) -> None:
    policy_terminal.key("ann", "--kind", "person", "--roles", "review,admin")
    policy_terminal.key("hers", "--kind", "agent", "--roles", "submit", "--owner", "ann")
    policy_terminal.key("stray", "--kind", "agent", "--roles", "submit", "--owner", "anm")
    finding = one(policy_terminal, "keys")
    assert (finding["level"], "agent stray is owned by anm, who is unknown" in finding["text"]) == (
        "note",
        True,
    )
    assert policy_terminal("doctor").code == 0


def test_requests_past_their_end_that_nobody_closed_are_noted(
    policy_terminal: Terminal, serve: Callable[..., InterlockServer]
) -> None:
    policy_terminal.submit()
    age(policy_terminal.folder, "jobs", hours=25)
    finding = one(policy_terminal, "sweeps")
    assert (finding["level"], "1 request past the end" in finding["text"]) == ("note", True)
    assert "interlock serve" in finding["next_step"]
    serve(f"sqlite:///{policy_terminal.folder}/.interlock/interlock.db")
    _until(policy_terminal, "sweeps", 0)


def test_released_jobs_that_nobody_takes_are_named_by_topic_with_the_worker_to_start(
    policy_terminal: Terminal,
) -> None:
    policy_terminal.submit(RELEASED)
    assert policy_terminal("doctor").code == 0
    age(policy_terminal.folder, "jobs", hours=2)
    said = policy_terminal("doctor", "--json")
    assert said.code == 1
    (stuck,), (unclaimed,) = found(said, "jobs"), found(said, "work")
    assert (stuck["level"], "not taken for more than an hour" in stuck["text"]) == ("note", True)
    assert unclaimed["level"] == "wrong"
    assert f"interlock worker --topic {RELEASED}" in unclaimed["next_step"]


def test_dead_letters_are_noted_with_how_to_bring_them_back(policy_terminal: Terminal) -> None:
    job = policy_terminal.submit(RELEASED)
    policy_terminal("worker", "--topic", RELEASED, "--exec", "exit 1", "--once")
    finding = one(policy_terminal, "dead letters")
    assert (finding["level"], job["id"] in finding["text"]) == ("note", True)
    assert f"interlock retry {job['id']}" in finding["next_step"]
    policy_terminal("retry", job["id"])
    assert found(policy_terminal("doctor", "--json"), "dead letters") == []


def test_a_lease_that_ran_out_and_that_nobody_settled_is_wrong(policy_terminal: Terminal) -> None:
    policy_terminal.submit(RELEASED)
    with store_of(policy_terminal) as il:
        assert il.claim_jobs([RELEASED], lease_seconds=60)
    assert found(policy_terminal("doctor", "--json"), "leases") == []
    age(policy_terminal.folder, "jobs", minutes=10)
    finding = one(policy_terminal, "leases")
    assert (finding["level"], "1 lease ran out" in finding["text"]) == ("wrong", True)
    assert "interlock serve" in finding["next_step"]


def test_a_job_that_a_rule_holds_up_is_wrong_and_says_why(policy_terminal: Terminal) -> None:
    job = policy_terminal.submit(RELEASED)
    policy_terminal("policy", "apply", policy_terminal.file("broken.yaml", BROKEN_RULE))
    with store_of(policy_terminal) as il:
        assert il.claim_jobs([RELEASED]) == ()
    finding = one(policy_terminal, "work")
    assert finding["level"] == "wrong"
    assert finding["text"].startswith(f"{job['id']} is held up: ")
    assert "interlock policy evaluate" in finding["next_step"]


def test_a_house_without_an_admins_key_is_noted(policy_terminal: Terminal) -> None:
    finding = one(policy_terminal, "keys")
    assert (finding["level"], "no key has the role admin" in finding["text"]) == ("note", True)


def test_a_slot_that_ran_out_and_that_nobody_took_back_is_wrong(
    policy_terminal: Terminal, serve: Callable[..., InterlockServer]
) -> None:
    with store_of(policy_terminal) as il:
        il.start_run("nightly")
    age(policy_terminal.folder, "runs", hours=2)
    finding = one(policy_terminal, "runs")
    assert (finding["level"], "1 slot ran out" in finding["text"]) == ("wrong", True)
    serve(f"sqlite:///{policy_terminal.folder}/.interlock/interlock.db")
    _until(policy_terminal, "runs", 0)


def test_a_gate_that_counts_wrong_is_wrong(policy_terminal: Terminal) -> None:
    with store_of(policy_terminal) as il:
        il.start_run("nightly")
    database = apsw.Connection(str(policy_terminal.folder / ".interlock" / "interlock.db"))
    database.execute("DELETE FROM runs")
    database.close()
    finding = one(policy_terminal, "runs")
    assert (finding["level"], finding["text"]) == ("wrong", "the gate counts 1 active run, but there are 0")


def test_a_caller_who_may_not_see_grants_is_told_so(policy_terminal: Terminal) -> None:
    key = policy_terminal.key("payer", "--kind", "agent", "--roles", "submit")
    (finding,) = found(policy_terminal("doctor", "--json", "--api-key", key), "grants")
    assert (finding["level"], finding["text"]) == ("note", "not examined")


def test_a_webhook_that_takes_nothing_is_wrong_and_what_it_missed_is_noted(
    policy_terminal: Terminal, serve: Callable[..., InterlockServer], tmp_path: Path
) -> None:
    url = _served(serve, tmp_path, INTERLOCK_WEBHOOK_ATTEMPTS_MAX="1")
    policy_terminal.use(INTERLOCK_URL=url[0], INTERLOCK_KEY=url[1])
    hook = policy_terminal("webhook", "add", "http://127.0.0.1:1/hook", "--json").json["id"]
    policy_terminal.submit(RELEASED)
    findings = _until(policy_terminal, "webhooks", 2)
    assert [each["level"] for each in findings] == ["wrong", "note"]
    assert f"{hook} (http://127.0.0.1:1/hook) takes nothing: " in findings[0]["text"]
    assert f"interlock webhook test {hook}" in findings[0]["next_step"]
    assert "dead letter" in findings[1]["text"]
    assert findings[1]["next_step"] == f"interlock webhook letters {hook}"


def test_events_that_no_server_relays_are_wrong(policy_terminal: Terminal) -> None:
    policy_terminal.use(INTERLOCK_WEBHOOK_ALLOW_PRIVATE="127.0.0.0/8")
    hook = policy_terminal("webhook", "add", "http://127.0.0.1:1/hook", "--json").json["id"]
    policy_terminal.submit(RELEASED)
    assert found(policy_terminal("doctor", "--json"), "relays") == []
    age(policy_terminal.folder, "relays", minutes=5)
    finding = one(policy_terminal, "relays")
    assert finding["level"] == "wrong"
    assert f"{hook} is 1 event behind, and no server relays to it" in finding["text"]


def test_a_broker_that_takes_nothing_is_wrong(
    policy_terminal: Terminal, serve: Callable[..., InterlockServer], tmp_path: Path, nats: NatsServer
) -> None:
    url = _served(serve, tmp_path, INTERLOCK_NATS_URL=nats.url, INTERLOCK_RELAY_LEASE_SECONDS="1")
    policy_terminal.use(INTERLOCK_URL=url[0], INTERLOCK_KEY=url[1])
    policy_terminal.submit(RELEASED)
    nats.kill()
    policy_terminal.submit(RELEASED)
    (finding,) = _until(policy_terminal, "broker", 1)
    assert (finding["level"], "it takes no events" in finding["text"]) == ("wrong", True)
    assert "INTERLOCK_NATS_URL" in finding["next_step"]


def _served(serve: Callable[..., InterlockServer], folder: Path, **env: str) -> tuple[str, str]:
    """A server with a policy in force that may post to loopback; its URL and a key with every role."""
    policy = folder / "served.yaml"
    policy.write_text(POLICY)
    allowed = {"INTERLOCK_WEBHOOK_ALLOW_PRIVATE": "127.0.0.0/8"}
    server = serve(f"sqlite:///{folder}/served.db", policy=policy, env=allowed | env)
    roles = "submit,work,review,operate,audit,admin"
    return server.url, server.create_key("root", kind="person", roles=roles).key


def _until(terminal: Terminal, about: str, count: int) -> list[dict[str, Any]]:
    """Ask until there are so many findings: relays and sweeps take a moment."""
    deadline = time.monotonic() + 60
    while len(findings := found(terminal("doctor", "--json"), about)) != count:
        if time.monotonic() > deadline:
            pytest.fail(f"only {findings} about {about}")
        time.sleep(0.1)
    return findings


def test_how_often_the_epoch_was_raised_is_counted(terminal: Terminal) -> None:
    assert terminal("init").code == 0
    assert terminal("doctor", "--after-restore").code == 0
    assert "epoch 1, raised 1 time after a restore" in terminal("doctor").out

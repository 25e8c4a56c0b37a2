"""The remote clients against a real server process, through its death and return."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock import AsyncInterlock, Interlock, Job, Rejected
from tests.harness.server import InterlockServer

POLICY = {"version": "v1", "default": "require_human", "rules": []}


class Site:
    """A server, an agent's clients, and a person's."""

    def __init__(self, path: Path) -> None:
        self.server = InterlockServer(f"sqlite:///{path}/interlock.db")
        admin = self.server.create_key("root", roles="admin").key
        agent = self.server.create_key("bot", kind="agent", roles="submit").key
        person = self.server.create_key("ann").key
        self.server.start()
        self.agent, self.async_agent = (
            Interlock(self.server.url, agent),
            AsyncInterlock(self.server.url, agent),
        )
        self.ann = Interlock(self.server.url, person)
        with Interlock(self.server.url, admin) as il:
            il.apply_policy(POLICY)

    def close(self) -> None:
        self.agent.close()
        self.ann.close()
        self.server.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.close()


def test_a_gate_over_http_runs_what_a_person_approved(site: Site) -> None:
    @site.agent.gate("pay.invoice", on_pending=lambda job: site.ann.approve(job.id))
    def pay(invoice: str, amount: int = 5) -> str:
        return f"paid {amount} for {invoice}"

    assert pay("i-1") == "paid 5 for i-1"


def test_an_async_gate_over_http_tells_the_agent_why_not(site: Site) -> None:
    @site.async_agent.gate(
        "pay.invoice", on_pending=lambda job: site.ann.reject(job.id, reason="No.") and None
    )
    async def pay(invoice: str) -> None:
        raise AssertionError("ran")

    async def call() -> None:
        async with site.async_agent:
            await pay("i-1")

    with pytest.raises(Rejected) as caught:
        asyncio.run(call())
    assert (caught.value.reason, caught.value.reviewer) == ("No.", "ann")


def test_a_waiting_gate_outlives_the_death_of_its_server(site: Site) -> None:
    asked: list[Job] = []
    killed = threading.Event()

    def kill_the_server(job: Job) -> None:
        asked.append(job)
        site.server.kill()
        killed.set()

    @site.agent.gate("pay.invoice", on_pending=kill_the_server)
    def pay(invoice: str) -> str:
        return f"paid {invoice}"

    paid: list[str] = []
    paying = threading.Thread(target=lambda: paid.append(pay("i-1")))
    paying.start()
    assert killed.wait(60)
    site.server.start()
    site.ann.approve(asked[0].id)
    paying.join(120)
    assert paid == ["paid i-1"]


def test_a_named_submit_repeated_across_a_restart_is_one_job(site: Site) -> None:
    first = site.agent.submit("pay.invoice", {"n": 1}, key="invoice 1")
    site.server.kill()
    site.server.start()
    again = site.agent.submit("pay.invoice", {"n": 1}, key="invoice 1")
    assert again.replayed
    assert again.id == first.id
    assert len(site.agent.jobs().items) == 1

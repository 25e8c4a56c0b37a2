"""A row edited behind Interlock's back: noticed, refused, audited, never released."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import apsw
import asyncpg
import msgspec
import pytest

from interlock.rooms.policy.action import Action
from interlock.store import store_for
from tests.harness.in_process_api import ASK, open_api


def payload(job: dict[str, Any]) -> None:
    job["action"]["payload"] = {"amount": 999_999}


def payload_with_its_hash(job: dict[str, Any]) -> None:
    payload(job)
    action = msgspec.json.decode(json.dumps(job["action"]), type=Action)
    job["job_hash"] = action.hash("default")


def topic(job: dict[str, Any]) -> None:
    job["action"]["topic"] = "read"


def hash_of_another(job: dict[str, Any]) -> None:
    job["job_hash"] = "sha256:" + "0" * 64


def target(job: dict[str, Any]) -> None:
    job["action"]["target"] = {"key": "somewhere-else"}


async def tamper(url: str, job: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Edit the stored row as a person with access to the database would."""
    if url.startswith("sqlite"):
        with apsw.Connection(url.removeprefix("sqlite:///")) as database:
            body = json.loads(str(database.execute("SELECT body FROM jobs WHERE id = ?", (job,)).get))
            change(body)
            database.execute("UPDATE jobs SET body = ? WHERE id = ?", (json.dumps(body), job))
        return
    connection = await asyncpg.connect(url)
    try:
        body = json.loads(await connection.fetchval("SELECT body FROM jobs WHERE id = $1", job))
        change(body)
        await connection.execute("UPDATE jobs SET body = $1 WHERE id = $2", json.dumps(body), job)
    finally:
        await connection.close()


@pytest.mark.parametrize(
    "change",
    [payload, payload_with_its_hash, topic, hash_of_another, target],
    ids=lambda change: change.__name__,
)
async def test_a_job_altered_in_the_database_cannot_be_approved(
    durable_url: str, change: Callable[[dict[str, Any]], None]
) -> None:
    async with open_api(store_for(durable_url)) as api:
        await api.policy(ASK)
        bot, ada = await api.agent(), await api.person("ada")
        job = await api.submit(bot, {"amount": 5})

        await tamper(durable_url, job, change)
        refused = await api.approve(job, ada)

        assert (refused.status, refused.word) == (409, "job_changed")
        assert refused.document["expected"] != refused.document["found"] or change is hash_of_another
        assert (await api.job(job))["state"] == "APPROVAL"
        assert (await api.audit(job))[-1] == ("approve_refused", "JobChanged")
        shown = await api.get(f"approvals/{job}", ada)
        assert shown["drift"]["job_changed"] is True
        assert shown["on_approve"].startswith("nothing: what is stored no longer matches its hash")
        assert (await api.events(job)) == ["approval.requested"]


async def test_an_altered_job_can_be_rejected(durable_url: str) -> None:
    async with open_api(store_for(durable_url)) as api:
        await api.policy(ASK)
        bot, ada = await api.agent(), await api.person("ada")
        job = await api.submit(bot, {"amount": 5})
        await tamper(durable_url, job, payload)

        assert (await api.reject(job, ada)).word == "rejected"


async def test_a_refresh_puts_what_is_stored_before_people_again(durable_url: str) -> None:
    async with open_api(store_for(durable_url)) as api:
        await api.policy(ASK)
        bot, ada = await api.agent(), await api.person("ada")
        job = await api.submit(bot, {"amount": 5})
        before = (await api.job(job))["job_hash"]
        await tamper(durable_url, job, payload)

        refreshed = await api.call("POST", f"approvals/{job}/refresh", ada, {})

        assert refreshed.document["state"] == "APPROVAL"
        assert refreshed.document["job_hash"] != before
        assert (await api.approve(job, ada, job_hash=before)).word == "hash_mismatch"
        assert (await api.approve(job, ada, job_hash=refreshed.document["job_hash"])).word == "approved"

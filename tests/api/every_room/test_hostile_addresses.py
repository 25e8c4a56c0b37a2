"""Cursors nobody gave out, questions nobody can answer, paths that lead elsewhere."""

from __future__ import annotations

import pytest

from tests.harness.in_process_api import ASK, InProcessApi

CURSORS = [
    "~",
    "%E2%80%8B",
    "0",
    "-1",
    "9" * 18,
    "9" * 100,
    "1e9",
    "job_",
    "%27%20OR%201=1--",
    "null",
    "%F0%9F%92%A5",
    "a" * 512,
]
LISTS = ["jobs", "approvals", "audit", "api-keys", "principals", "policy/snapshots", "policy/observed"]


async def test_a_made_up_cursor_never_breaks_a_list(durable: InProcessApi) -> None:
    await durable.policy(ASK)
    await durable.submit(await durable.agent())

    for path in (f"{name}?cursor={cursor}" for name in LISTS for cursor in CURSORS):
        seen = await durable.call("GET", path, durable.admin)
        assert seen.status in (200, 400), (path, seen.document)


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "limit=x", "limit=1&limit=2", "what=1", "what="])
async def test_a_list_is_asked_properly_or_not_at_all(api: InProcessApi, query: str) -> None:
    for path in LISTS:
        seen = await api.call("GET", f"{path}?{query}", api.admin)
        assert (seen.status, seen.word) == (400, "invalid_request"), path


PATHS = [
    "jobs/..%2F..%2Fetc%2Fpasswd",
    "jobs/%FF",
    "jobs/%",
    "jobs/%zz",
    "jobs/" + "a" * 4000,
    "jobs/" + "a" * 9000,
    "jobs/job_%0A",
    "jobs//",
    "jobs/a/b/c/d/e/f/g",
    "approvals/%F0%9F%92%A5/approve",
    "policy/snapshots/sha256:" + "f" * 64,
    "principals/" + "%20" * 10,
]


async def test_a_strange_path_is_refused_properly(durable: InProcessApi) -> None:
    for method, path in ((method, path) for path in PATHS for method in ("GET", "POST", "PUT")):
        seen = await durable.call(method, path, durable.admin, None if method == "GET" else {})
        assert 400 <= seen.status < 500, (method, path, seen.document)
        assert seen.document["status"] == seen.status

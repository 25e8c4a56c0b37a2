"""The example that mounts Interlock in FastAPI runs on a server, and other applications can do the same."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount

from interlock import Interlock
from interlock.api.asgi import InterlockApp, create_app
from interlock.service.settings import settings_from
from tests.harness.processes import kill_tree, pick_port
from tests.harness.reaper import reaper
from tests.harness.server import INTERLOCK, clean_env

EXAMPLES = Path(__file__).parents[2] / "examples"
ALLOW = "version: v1\ndefault: allow\n"
HANG_SECONDS = 60


@pytest.fixture
def example(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The address of the example on a server of its own, and a key."""
    (tmp_path / "policy.yaml").write_text(ALLOW)
    (tmp_path / "interlock.toml").write_text('store = "sqlite:///mounted.db"\npolicy = "policy.yaml"\n')
    made = subprocess.run(
        [*INTERLOCK, "key", "create", "bot", "--kind", "agent", "--roles", "submit", "--json"],
        capture_output=True, text=True, cwd=tmp_path, env=clean_env(), timeout=HANG_SECONDS, check=True,
    )  # fmt: skip
    port = pick_port()
    command = ["granian", "--interface", "asgi", "--port", str(port), f"{EXAMPLES}/fastapi_app.py:app"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *command], cwd=tmp_path, env=clean_env(), stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
    reaper().watch(process.pid)
    try:
        assert _answers(port), (tmp_path / "log").read_text()
        yield f"http://127.0.0.1:{port}", json.loads(made.stdout)["key"]
    finally:
        kill_tree(process.pid)
        process.wait(HANG_SECONDS)
        reaper().forget(process.pid)


def _answers(port: int) -> bool:
    until = time.monotonic() + HANG_SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=5):
            return True
        time.sleep(0.05)
    return False


def test_the_example_answers_beside_the_applications_own_paths(example: tuple[str, str]) -> None:
    url, key = example
    with urllib.request.urlopen(url, timeout=HANG_SECONDS) as own:
        assert json.load(own) == {"interlock": "/interlock/docs"}
    with Interlock(f"{url}/interlock", key=key) as client:
        submitted = client.submit("knowledge.read", payload={"n": 1})
        assert client.get_job(submitted.id).id == submitted.id


@contextlib.asynccontextmanager
async def mounted(outer: Any, inner: InterlockApp, root: str = "") -> AsyncIterator[httpx2.AsyncClient]:
    async with inner.opened(first_admin=False):
        transport = httpx2.ASGITransport(app=outer, root_path=root)
        async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
            yield client


@pytest.mark.parametrize(
    ("root", "sent"),
    [("", "/gate"), ("/proxy", "/gate"), ("/proxy", "/proxy/gate")],
    ids=["no proxy", "a proxy that takes its prefix off", "a proxy that leaves its prefix on"],
)
async def test_links_have_the_whole_prefix_however_a_request_came(root: str, sent: str) -> None:
    inner = create_app(settings_from({}, store="memory:"))
    outer = FastAPI()
    outer.mount("/gate", inner)
    async with mounted(outer, inner, root) as client:
        description = (await client.get(f"{sent}/openapi.json")).json()
        assert description["servers"] == [{"url": f"{root}/gate"}]
        refused = await client.get(f"{sent}/api/v1/jobs/a%2Fb")
        assert (refused.status_code, refused.json()["type"]) == (401, f"{root}/gate/problems/unauthenticated")
        assert (await client.get(f"{sent}/healthz")).status_code == 200


async def test_it_is_mounted_in_starlette_the_same_way() -> None:
    inner = create_app(settings_from({}, store="memory:"))
    async with mounted(Starlette(routes=[Mount("/a/b", app=inner)]), inner) as client:
        assert (await client.get("/a/b/openapi.json")).json()["servers"] == [{"url": "/a/b"}]


async def test_a_mount_that_nobody_opened_says_what_to_do() -> None:
    inner = create_app(settings_from({}, store="memory:"))
    transport = httpx2.ASGITransport(app=Starlette(routes=[Mount("/a", app=inner)]))
    async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
        with pytest.raises(RuntimeError, match="opened"):
            await client.get("/a/healthz")

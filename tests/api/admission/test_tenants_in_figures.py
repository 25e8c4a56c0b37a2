"""Who the tenants are, and what they call their work, is told to operators alone."""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from tests.harness.in_process_api import InProcessApi
from tests.harness.postgres import PostgresServer
from tests.harness.processes import pick_port
from tests.harness.server import InterlockServer
from tests.rooms.admission.admission_client import AdmissionClient


async def start_as_acme(api: InProcessApi) -> None:
    key = await api.agent("bot", tenant="acme-secret")
    assert (await api.call("POST", "workflows/merger/runs", key, {})).status == 201


async def test_tenants_and_their_workflows_are_added_up_for_whoever_has_no_role(
    client: AdmissionClient,
) -> None:
    api = client.api
    await client.start("a")
    await start_as_acme(api)
    keys = (
        "",
        "il_nothing",
        await api.agent("curious"),
        await api.person("ada"),
        await api.person("root", "admin,operate,audit", tenant="acme-secret"),
    )
    for key in keys:
        for path in ("/metrics", "/api/v1/metrics"):
            seen = await api.call("GET", path, key)
            text = seen.body.decode()
            assert seen.status == 200
            assert 'interlock_admission_total{outcome="admitted"} 2' in text
            assert "acme" not in text
            assert "merger" not in text
            assert "tenant=" not in text


@pytest.mark.parametrize("role", ["operate", "audit", "admin"])
async def test_a_key_with_a_role_is_told_them_apart(client: AdmissionClient, role: str) -> None:
    await start_as_acme(client.api)
    watcher = await client.api.key("watcher", "service", role)
    text = (await client.api.call("GET", "/metrics", watcher)).body.decode()
    assert 'interlock_admission_total{tenant="acme-secret",workflow="merger",outcome="admitted"} 1' in text


async def test_two_keys_are_as_good_as_none(client: AdmissionClient) -> None:
    await start_as_acme(client.api)
    seen = await client.api.call("GET", "/metrics", client.api.admin, headers={"x-api-key": "il_other"})
    assert (seen.status, "acme" in seen.body.decode()) == (200, False)


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_an_address_of_its_own_shows_them_without_a_key_and_nothing_else(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if store == "postgres":
        postgres: PostgresServer = request.getfixturevalue("postgres")
        url = postgres.create_database()
    else:
        url = f"sqlite:///{tmp_path}/interlock.db"
    port = pick_port()
    server = InterlockServer(url, env={"INTERLOCK_METRICS_ADDRESS": f"127.0.0.1:{port}"})
    bot = server.create_key("bot", kind="agent", roles="submit", tenant="acme-secret")
    server.start()
    try:
        assert asked(server.port, "POST", "/api/v1/workflows/merger/runs", bot.headers)[0] == 201
        assert 'tenant="acme-secret"' in asked(port, "GET", "/metrics")[1]
        assert "acme" not in asked(server.port, "GET", "/metrics")[1]
        assert asked(port, "GET", "/healthz")[0] == 200
        for path in ("/api/v1/jobs", "/api/v1/workflow-runs", "/openapi.json"):
            assert asked(port, "GET", path, bot.headers)[0] == 404
        assert server.terminate() == 0
    finally:
        server.close()


def asked(port: int, method: str, path: str, headers: Mapping[str, str] | None = None) -> tuple[int, str]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        body = b"{}" if method == "POST" else None
        connection.request(method, path, body, {"content-type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

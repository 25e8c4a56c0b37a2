"""The files for compose and the proxies fit together, and when one of the two servers dies, the other one goes on."""

from __future__ import annotations

import contextlib
import http.client
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from interlock import Interlock
from interlock.service.settings import Settings, settings_from
from tests.harness.container import ROOT, Container, Image
from tests.harness.debian_programs import installed
from tests.harness.processes import pick_port
from tests.harness.reverse_proxies import Kind, ReverseProxy

DEPLOY = ROOT / "deploy"
COMPOSE = DEPLOY / "compose.yaml"
SERVERS = ("one", "two")
JOBS = 40
# More than the stream says between two events of jobs.
LINES_MAX = 200


def composed() -> dict[str, Any]:
    return yaml.safe_load(COMPOSE.read_text())


def test_the_compose_file_follows_the_schema_of_compose() -> None:
    command = [Path(sys.executable).parent / "check-jsonschema", "--builtin-schema", "vendor.compose-spec"]
    said = subprocess.run([*command, COMPOSE], capture_output=True, text=True)
    assert said.returncode == 0, said.stdout + said.stderr


def test_what_the_services_name_is_there() -> None:
    compose = composed()
    for service in compose["services"].values():
        assert set(service.get("depends_on", {})) <= set(compose["services"])
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in compose["volumes"]
        if build := service.get("build"):
            assert (DEPLOY / build["context"] / build["dockerfile"]).is_file()


def test_every_service_says_whether_it_is_well_and_every_other_waits_until_it_is() -> None:
    services = composed()["services"]
    assert all("test" in service["healthcheck"] for service in services.values())
    waits = [each for service in services.values() for each in service.get("depends_on", {}).values()]
    assert waits
    assert all(each == {"condition": "service_healthy"} for each in waits)


def test_no_secret_is_in_the_compose_file_and_none_may_be_left_out() -> None:
    text = COMPOSE.read_text()
    secret = re.findall(r"^ +(?:INTERLOCK_SECRET|\w*PASSWORD): (.*)$", text, re.MULTILINE)
    assert len(secret) == 3
    assert all(re.fullmatch(r"\$\{\w+:\?.+}", value) for value in secret)
    # One check is enough to know that the expression above finds what it must.
    assert not re.fullmatch(r"\$\{\w+:\?.+}", "${POSTGRES_PASSWORD:-interlock}")


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_is_set_up_as_the_server_and_its_image_understand(name: str) -> None:
    compose = composed()
    server = compose["services"][name]
    own = {key: value for key, value in server["environment"].items() if key.startswith("INTERLOCK_")}
    settings = settings_from(own)
    assert set(own) <= {f"INTERLOCK_{field.upper()}" for field in Settings.__struct_fields__}
    (network,) = compose["networks"]["default"]["ipam"]["config"]
    assert settings.trusted_proxies == network["subnet"]
    assert int(server["stop_grace_period"][:-1]) > settings.drain_seconds
    assert settings.store.startswith("postgresql://interlock@database/")


def test_the_servers_check_and_user_are_those_of_the_image() -> None:
    image = Image()
    server = composed()["services"]["one"]
    assert server["healthcheck"]["test"] == ["CMD", *image.words("HEALTHCHECK")]
    uid, gid = image.last("USER").split(":")
    assert server["tmpfs"] == [f"{image.last('VOLUME')}:uid={uid},gid={gid},mode=0700"]
    image.close()


def test_the_proxy_is_told_all_that_its_file_asks_its_environment() -> None:
    asked = set(re.findall(r"^ +presetenv (\w+)", (DEPLOY / "haproxy.cfg").read_text(), re.MULTILINE))
    proxy = composed()["services"]["proxy"]
    assert set(proxy["environment"]) == asked
    assert {proxy["environment"][f"SERVER_{name.upper()}"] for name in SERVERS} == {
        f"{name}:{Settings().port}" for name in SERVERS
    }


def test_the_proxies_limits_are_those_of_the_server() -> None:
    bytes_max = settings_from({}).body_bytes_max
    assert f"content-length) gt {bytes_max} " in (DEPLOY / "haproxy.cfg").read_text()
    assert f"client_max_body_size {bytes_max // 2**20}m;" in (DEPLOY / "nginx.conf").read_text()


class Site(NamedTuple):
    """The services of the compose file as processes of this machine."""

    kind: str
    servers: list[Container]
    proxy: ReverseProxy
    admin_key: str

    def ask(self, path: str) -> int:
        """The status of one request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.proxy.port, timeout=60)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {self.admin_key}"})
            return connection.getresponse().status
        finally:
            connection.close()

    @contextlib.contextmanager
    def streaming(self) -> Iterator[http.client.HTTPResponse]:
        """The events from now on, as they come."""
        connection = http.client.HTTPConnection("127.0.0.1", self.proxy.port, timeout=60)
        headers = {"Authorization": f"Bearer {self.admin_key}", "Accept": "text/event-stream"}
        with contextlib.closing(connection):
            connection.request("GET", "/api/v1/events", headers=headers)
            yield connection.getresponse()

    def client(self, name: str) -> Interlock:
        """A principal's client, through the proxy."""
        url = f"http://127.0.0.1:{self.proxy.port}"
        with Interlock(url, key=self.admin_key) as admin:
            made = admin.create_api_key(name, kind="worker", roles=["submit", "work", "audit"])
        return Interlock(url, key=made.key)


def test_haproxy_accepts_what_the_compose_file_tells_it() -> None:
    told = composed()["services"]["proxy"]["environment"]
    # Only inside the network of the services do their names lead anywhere.
    env = {name: re.sub(rf"^({'|'.join(SERVERS)}):", "localhost:", value) for name, value in told.items()}
    haproxy = installed("haproxy")
    said = subprocess.run(
        [haproxy.program, "-c", "-f", DEPLOY / "haproxy.cfg"],
        env={**haproxy.env(), **env},
        capture_output=True,
        text=True,
    )
    assert said.returncode == 0, said.stdout + said.stderr
    assert "WARNING" not in said.stdout + said.stderr


@pytest.fixture(params=["haproxy", "nginx"])
def site(request: pytest.FixtureRequest, image: Image, postgres_url: str) -> Iterator[Site]:
    """Both servers on one PostgreSQL, healthy, and a proxy with exactly the shipped file before them."""
    compose = composed()
    ports = [pick_port() for _ in SERVERS]
    kind: Kind = request.param
    proxy = ReverseProxy(kind, *ports, as_shipped=True)
    servers: list[Container] = []
    try:
        for name, port in zip(SERVERS, ports, strict=True):
            environment = compose["services"][name]["environment"] | {
                "INTERLOCK_STORE": postgres_url,
                "INTERLOCK_TRUSTED_PROXIES": "127.0.0.1/32",
                "INTERLOCK_SECRET": "x" * 40,
                "INTERLOCK_HOST": "127.0.0.1",
                "INTERLOCK_PORT": str(port),
            }
            servers.append(Container(image, **environment))
        for server in servers:
            server.until_healthy()
        (admin_key,) = re.findall(r"^admin key: (\S+)", "".join(each.log() for each in servers), re.MULTILINE)
        yield Site(kind, servers, proxy.start(), admin_key)
    finally:
        proxy.close()
        for server in servers:
            server.close()


def test_what_waits_at_one_server_hears_of_what_happens_at_the_other(site: Site) -> None:
    with Interlock(f"http://127.0.0.1:{site.proxy.port}", key=site.admin_key) as admin:
        admin.apply_policy("version: v1\ndefault: allow\n")
    with ThreadPoolExecutor() as pool, site.client("worker") as worker, site.client("agent") as agent:
        waiting = pool.submit(worker.claim_jobs, topics=["t"], wait_seconds=60)
        with site.streaming() as stream:
            jobs = [agent.submit("t", {"n": number}) for number in range(4)]  # some to each server
            for job in jobs:
                assert any(job.id.encode() in stream.readline() for _ in range(LINES_MAX))
        assert waiting.result(60)[0].id in {job.id for job in jobs}


def test_requests_go_on_when_a_server_is_killed_and_when_one_is_stopped(site: Site) -> None:
    with Interlock(f"http://127.0.0.1:{site.proxy.port}", key=site.admin_key) as admin:
        admin.apply_policy("version: v1\ndefault: allow\n")
    first, second = site.servers
    with ThreadPoolExecutor() as pool, site.client("agent") as agent:
        is_half = threading.Semaphore(0)

        def submit(number: int) -> str:
            if number == JOBS // 2:
                is_half.release()
            return agent.submit("t", {"n": number}, key=f"k{number}").id

        going = [pool.submit(submit, number) for number in range(JOBS)]
        is_half.acquire(timeout=60)
        first.kill()
        ids = [each.result(120) for each in going]
        assert len(set(ids)) == len(ids)
        assert {job.id for job in agent.jobs(limit=JOBS).items} == set(ids)
    for server in site.servers:
        assert '"route":"/api/v1/jobs"' in server.log()
    if site.kind == "haproxy":  # It asks the other server at once; nginx leaves that to clients.
        assert [site.ask("/api/v1/jobs") for _ in range(20)] == [200] * 20
    assert second.stop() == 0

"""How a server is reached: TLS, certificates of clients, a Unix socket, HTTP/2, workers, a prefix, proxies."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import json
import os
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import h2.config
import h2.connection
import h2.events
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.api.http.conftest import ALLOW, opened
from tests.harness.load import fire, get, post
from tests.harness.processes import descendants, kill_tree, pick_port, wait_until_gone
from tests.harness.raw_http import PATIENCE, connected
from tests.harness.reaper import reaper
from tests.harness.server import INTERLOCK, clean_env


class Pair(NamedTuple):
    """A certificate and its key, as files."""

    cert: Path
    key: Path


def signed(folder: Path, name: str, *, issuer: Pair | None = None) -> Pair:
    """A certificate for 127.0.0.1, signed by itself or by an issuer."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(
            subject if issuer is None else x509.load_pem_x509_certificate(issuer.cert.read_bytes()).subject
        )
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    )
    signer: Any = key
    if issuer is not None:
        signer = serialization.load_pem_private_key(issuer.key.read_bytes(), None)
    made = builder.sign(signer, hashes.SHA256())
    pair = Pair(folder / f"{name}.pem", folder / f"{name}.key")
    pair.cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    pair.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return pair


class Started(NamedTuple):
    process: subprocess.Popen[str]
    announced: dict[str, Any]

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


@contextlib.contextmanager
def serving(folder: Path, *words: str, before: tuple[str, ...] = ()) -> Iterator[Started]:
    """`interlock serve` with these words, and what it announced; `before` is a command that starts it."""
    (folder / "policy.yaml").write_text(ALLOW)
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [*before, *INTERLOCK, "serve", "--json", "--policy", "policy.yaml", *words],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=folder,
            env=clean_env(),
            start_new_session=True,
        )
    reaper().watch(process.pid)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, (folder / "log").read_text()
        yield Started(process, json.loads(line))
    finally:
        kill_tree(process.pid)
        process.communicate()
        reaper().forget(process.pid)


def over(sock: socket.socket, *, path: str = "/healthz", key: str = "") -> bytes:
    """One GET over an open socket, up to its end."""
    sock.settimeout(PATIENCE)
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nX-Api-Key: {key}\r\nConnection: close\r\n\r\n".encode())
    whole = b""
    while piece := sock.recv(65536):
        whole += piece
    return whole


def tls(
    port: int, trust: Path, client: Pair | None = None, *, protocols: tuple[str, ...] = ()
) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=str(trust))
    if client is not None:
        context.load_cert_chain(client.cert, client.key)
    if protocols:
        context.set_alpn_protocols(list(protocols))
    raw = socket.create_connection(("127.0.0.1", port), PATIENCE)
    return context.wrap_socket(raw, server_hostname="127.0.0.1")


def test_a_server_with_a_certificate_speaks_tls(tmp_path: Path) -> None:
    pair = signed(tmp_path, "server")
    with serving(
        tmp_path, "--port", "0", "--tls-cert", str(pair.cert), "--tls-key", str(pair.key)
    ) as started:
        url = started.announced["url"]
        assert url.startswith("https://127.0.0.1:")
        port = int(url.rpartition(":")[2])
        with tls(port, pair.cert) as sock:
            assert over(sock).startswith(b"HTTP/1.1 200 ")
        plain = socket.create_connection(("127.0.0.1", port), PATIENCE)
        with plain, contextlib.suppress(ConnectionError):
            assert b" 200 " not in over(plain)
        assert started.end() == 0


def test_a_client_without_a_certificate_of_the_right_issuer_is_not_answered(tmp_path: Path) -> None:
    server, issuer, other = (signed(tmp_path, name) for name in ("server", "issuer", "other"))
    known, stranger = signed(tmp_path, "known", issuer=issuer), signed(tmp_path, "stranger", issuer=other)
    words = (
        "--tls-cert",
        str(server.cert),
        "--tls-key",
        str(server.key),
        "--tls-client-ca",
        str(issuer.cert),
    )
    with serving(tmp_path, "--port", "0", *words) as started:
        port = int(started.announced["url"].rpartition(":")[2])
        with tls(port, server.cert, known) as sock:
            assert over(sock).startswith(b"HTTP/1.1 200 ")
        for pair in (None, stranger):
            said = b""
            with contextlib.suppress(ssl.SSLError, ConnectionError), tls(port, server.cert, pair) as sock:
                said = over(sock)
            assert said == b""


def test_files_that_tls_cannot_be_served_with_are_wrong_usage(tmp_path: Path) -> None:
    pair, other = signed(tmp_path, "server"), signed(tmp_path, "other")
    for words, word in (
        (("--tls-cert", str(pair.cert)), "together"),
        (("--tls-cert", str(pair.cert), "--tls-key", str(other.key)), "tls_key"),
        (("--tls-cert", "nowhere.pem", "--tls-key", str(pair.key)), "tls_cert"),
        (("--tls-client-ca", str(pair.cert)), "tls_client_ca needs"),
    ):
        said = subprocess.run(
            [*INTERLOCK, "serve", "--port", "0", *words],
            capture_output=True, text=True, cwd=tmp_path, env=clean_env(), timeout=PATIENCE,
        )  # fmt: skip
        assert said.returncode == 2, said
        assert word in said.stderr
        assert "Traceback" not in said.stderr


def test_a_unix_socket_is_listened_on_and_taken_over_from_the_dead(tmp_path: Path) -> None:
    path = tmp_path / "interlock.sock"
    words = ("--uds", str(path), "--trusted-proxies", "unix")
    with serving(tmp_path, *words) as started:
        assert started.announced["url"] == f"unix:{path}"
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(path))
            assert over(sock, path="/api/v1/jobs", key=started.announced["admin_key"]).startswith(
                b"HTTP/1.1 200 "
            )
        said = subprocess.run(
            [*INTERLOCK, "serve", "--uds", str(path), "--store", "memory:"],
            capture_output=True, text=True, cwd=tmp_path, env=clean_env(), timeout=PATIENCE,
        )  # fmt: skip
        assert (said.returncode, "is in use" in said.stderr) == (1, True), said
        started.end(signal.SIGKILL)
    assert path.exists()
    with serving(tmp_path, *words) as started:
        assert started.end() == 0
    assert not path.exists()


@pytest.mark.parametrize(
    ("where", "why"),
    [("there.txt", "not a socket"), ("missing/a.sock", "No such file"), ("a" * 200, "too long")],
)
def test_a_unix_socket_that_cannot_be_made_is_told(tmp_path: Path, where: str, why: str) -> None:
    (tmp_path / "there.txt").write_text("kept")
    said = subprocess.run(
        [*INTERLOCK, "serve", "--uds", where, "--store", "memory:"],
        capture_output=True, text=True, cwd=tmp_path, env=clean_env(), timeout=PATIENCE,
    )  # fmt: skip
    assert said.returncode == 1
    assert "choose another --uds" in said.stderr
    assert why in said.stderr
    assert "Traceback" not in said.stderr
    assert (tmp_path / "there.txt").read_text() == "kept"


def test_http_2_is_spoken_if_it_is_asked_for(tmp_path: Path) -> None:
    pair = signed(tmp_path, "server")
    words = ("--port", "0", "--http2", "true", "--tls-cert", str(pair.cert), "--tls-key", str(pair.key))
    with serving(tmp_path, *words) as started:
        port = int(started.announced["url"].rpartition(":")[2])
        with tls(port, pair.cert, protocols=("h2",)) as sock:
            assert sock.selected_alpn_protocol() == "h2"
            body = json.dumps({"topic": "a", "payload": {}}).encode()
            status = _ask_http2(sock, started.announced["admin_key"], body)
        assert status == b"201"


def _ask_http2(sock: ssl.SSLSocket, key: str, body: bytes) -> bytes:
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding=None))
    connection.initiate_connection()
    head = [
        (":method", "POST"),
        (":path", "/api/v1/jobs"),
        (":scheme", "https"),
        (":authority", "a"),
        ("authorization", f"Bearer {key}"),
        ("content-type", "application/json"),
    ]
    connection.send_headers(1, head)
    connection.send_data(1, body, end_stream=True)
    sock.sendall(connection.data_to_send())
    sock.settimeout(PATIENCE)
    while piece := sock.recv(65536):
        for event in connection.receive_data(piece):
            if isinstance(event, h2.events.ResponseReceived):
                return dict(event.headers or ())[b":status"]
        sock.sendall(connection.data_to_send())
    return b""


async def test_several_workers_share_one_port_and_none_outlives_its_parent(
    tmp_path: Path, postgres_url: str
) -> None:
    words = ("--port", str(pick_port()), "--workers", "2", "--store", postgres_url)
    with serving(tmp_path, *words) as started:
        url, key = started.announced["url"], started.announced["admin_key"]
        headers = {"Authorization": f"Bearer {key}"}
        submits = [
            post("/api/v1/jobs", {"topic": "a", "payload": {"n": n}}, headers=headers) for n in range(200)
        ]
        answers = await fire(url, submits, connections=32)
        assert {answer.status for answer in answers} == {201}
        workers = [pid for pid in descendants(started.process.pid) if _is_worker(pid)]
        assert len(workers) == 2
        os.kill(workers[0], signal.SIGKILL)
        async with asyncio.timeout(PATIENCE):
            while len([pid for pid in descendants(started.process.pid) if _is_worker(pid)]) < 2:
                await asyncio.sleep(0.05)
        workers = [pid for pid in descendants(started.process.pid) if _is_worker(pid)]
        started.process.kill()
        started.process.wait(PATIENCE)
        await asyncio.to_thread(wait_until_gone, workers)
    with serving(tmp_path, *words) as started:
        assert started.announced["admin_key"] is None
        (answer,) = await fire(started.announced["url"], [get("/api/v1/jobs?limit=1", headers=headers)])
        assert answer.status == 200
        workers = descendants(started.process.pid)
        assert await asyncio.to_thread(started.end) == 0
        await asyncio.to_thread(wait_until_gone, workers)


def _is_worker(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


@pytest.mark.parametrize("store", ["sqlite:///a.db", "memory:"])
def test_workers_need_a_store_that_processes_share_well(tmp_path: Path, store: str) -> None:
    said = subprocess.run(
        [*INTERLOCK, "serve", "--port", "0", "--workers", "2", "--store", store],
        capture_output=True, text=True, cwd=tmp_path, env=clean_env(), timeout=PATIENCE,
    )  # fmt: skip
    assert said.returncode == 2
    assert "workers must be 1 on SQLite and in memory" in said.stderr
    assert "PostgreSQL" in said.stderr


async def test_a_prefix_is_taken_off_whether_or_not_the_proxy_did_and_links_have_it(tmp_path: Path) -> None:
    with opened(tmp_path, {}, "--root-path", "/interlock") as (server, key):
        for prefix in ("", "/interlock"):
            async with connected(server.port, key) as client:
                description = (await client.ask("GET", f"{prefix}/openapi.json")).json()
                assert description["servers"] == [{"url": "/interlock"}]
                missing = (await client.ask("GET", f"{prefix}/api/v1/jobs/job_none")).json()
                assert missing["type"] == "/interlock/problems/not_found"
                page = (await client.ask("GET", f"{prefix}/problems/not_found")).body
                assert b'href="/interlock/docs"' in page
                assert b'href="/docs"' not in page


@pytest.mark.parametrize(
    ("trusted", "said", "client"),
    [
        ("", "203.0.113.9", "127.0.0.1"),
        ("127.0.0.1/32", "203.0.113.9", "203.0.113.9"),
        ("127.0.0.1/32,10.0.0.0/8", "198.51.100.1, 203.0.113.9, 10.1.1.1", "203.0.113.9"),
        ("10.0.0.0/8", "203.0.113.9", "127.0.0.1"),
    ],
)
async def test_only_a_trusted_proxy_says_who_the_client_is(
    tmp_path: Path, trusted: str, said: str, client: str
) -> None:
    with opened(tmp_path, {"INTERLOCK_TRUSTED_PROXIES": trusted}) as (server, key):
        async with connected(server.port, key) as asking:
            await asking.ask("GET", "/healthz", None, f"X-Forwarded-For: {said}", "X-Request-Id: look-here")
        (line,) = [line for line in server.log().splitlines() if "look-here" in line]
        assert json.loads(line)["client"] == client


async def test_connections_beyond_the_files_a_process_may_have_wait_and_are_served_in_the_end(
    tmp_path: Path,
) -> None:
    few = ("bash", "-c", 'ulimit -n 256; exec "$@"', "few")
    with serving(tmp_path, "--port", "0", "--idle-seconds", "2", before=few) as started:
        port, key = int(started.announced["url"].rpartition(":")[2]), started.announced["admin_key"]
        async with contextlib.AsyncExitStack() as stack:
            first = await stack.enter_async_context(connected(port, key))
            assert (await first.ask("GET", "/healthz")).status == 200
            for _ in range(400):
                await stack.enter_async_context(connected(port, key))
            last = await stack.enter_async_context(connected(port, key))
            assert (
                await last.ask("GET", "/api/v1/jobs?limit=1")
            ).status == 200  # once silent ones are closed
        assert started.end() == 0
    assert "Too many open files" not in (tmp_path / "log").read_text()

"""`interlock serve` as a process: what it announces, what it refuses before it listens, how it stops."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import urlsplit
from urllib.request import urlopen

import apsw
import pytest

from interlock.service.local_kernel import local_user
from interlock.service.settings import Settings
from tests.cli.terminal import HANG_SECONDS, Terminal
from tests.harness.server import InterlockServer, clean_env


class Started:
    """A server that was started by hand, and the lines it printed so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def line(self) -> str:
        """The next line it prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def end(self, number: signal.Signals) -> int:
        """Send a signal, and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(HANG_SECONDS)


@pytest.fixture
def started(terminal: Terminal) -> Iterator[Callable[..., Started]]:
    """Starts servers on the terminal's folder; ends them after the test."""
    processes: list[subprocess.Popen[str]] = []

    def start(*words: str, env: dict[str, str] | None = None) -> Started:
        processes.append(
            subprocess.Popen(
                [sys.executable, "-m", "interlock.cli.main", "serve", *words],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                cwd=terminal.folder,
                env=clean_env(env),
            )
        )
        return Started(processes[-1])

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def test_every_setting_is_an_option_a_variable_and_has_its_default_in_the_help(terminal: Terminal) -> None:
    text = " ".join(terminal("serve", "--help").out.split())
    for name in Settings.__struct_fields__:
        assert f"--{name.replace('_', '-')} " in text
        value = getattr(Settings(), name)
        default = str(value).lower() if isinstance(value, bool) else value or "none"
        assert f"INTERLOCK_{name.upper()}; default: {default}" in text


def test_the_first_start_announces_an_address_and_one_admin_key(
    terminal: Terminal, started: Callable[..., Started]
) -> None:
    server = started("--port", "0")
    lines = [server.line() for _ in range(8)]
    url = lines[0].split()[-1]
    key = next(line.removeprefix("admin key: ") for line in lines if line.startswith("admin key: "))
    assert url.startswith("http://127.0.0.1:")
    assert (
        terminal("key", "list", "--url", url, "--api-key", key, "--json").json["items"][0]["principal"]
        == "admin"
    )


def _has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6")
def test_an_ipv6_address_is_announced_as_it_is_asked_for(started: Callable[..., Started]) -> None:
    server = started("--host", "::1", "--port", "0", "--json")
    address = json.loads(server.line())["url"]
    assert address.startswith("http://[::1]:")
    with urlopen(f"{address}/healthz", timeout=HANG_SECONDS) as answer:
        assert answer.status == 200


def test_a_later_start_announces_no_key(terminal: Terminal, started: Callable[..., Started]) -> None:
    first = started("--port", "0", "--json")
    assert json.loads(first.line())["admin_key"].startswith("il_")
    assert first.end(signal.SIGTERM) == 0
    assert json.loads(started("--port", "0", "--json").line())["admin_key"] is None


def test_a_local_server_prints_a_link_that_signs_its_person_in(
    terminal: Terminal, started: Callable[..., Started]
) -> None:
    server = started("--port", "0")
    address, _, line = server.line().split()[-1], server.line(), server.line()
    said, _, link = line.partition(": ")
    assert said == "sign in once, within 12 hours"
    assert link.startswith(f"{address}/console/sign-in?link=sil_")
    assert server.end(signal.SIGTERM) == 0
    assert _makers_of_links(terminal) == [f"local:{local_user()}"]


def test_several_workers_make_one_sign_in_link(
    terminal: Terminal, started: Callable[..., Started], postgres_url: str
) -> None:
    server = started("--port", "0", "--json", "--workers", "2", "--store", postgres_url)
    assert "/console/sign-in?link=sil_" in json.loads(server.line())["sign_in"]
    assert server.end(signal.SIGTERM) == 0
    assert _makers_of_links(terminal, "--store", postgres_url) == [f"local:{local_user()}"]


def _makers_of_links(terminal: Terminal, *where: str) -> list[str]:
    entries = terminal("audit", "--json", "--limit", "1000", *where).json["items"]
    return [each["actor"] for each in entries if each["action"] == "sign_in_link.made"]


@pytest.mark.parametrize(
    "options", [("--host", "0.0.0.0"), ("--trusted-proxies", "127.0.0.1/32"), ("--root-path", "/interlock")]
)
def test_a_server_that_others_reach_prints_no_sign_in_link(
    started: Callable[..., Started], options: tuple[str, str]
) -> None:
    server = started("--port", "0", "--json", *options)
    assert json.loads(server.line())["sign_in"] is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_that_was_asked_for_is_no_failure(
    number: signal.Signals, started: Callable[..., Started]
) -> None:
    server = started("--port", "0", "--json")
    server.line()
    assert server.end(number) == 0


def test_a_server_that_waits_for_a_client_stops_at_once_when_told_again(
    started: Callable[..., Started],
) -> None:
    patient = {"INTERLOCK_DRAIN_SECONDS": "3600", "INTERLOCK_STALLED_SECONDS": "3600"}
    server = started("--port", "0", "--json", env=patient)
    address = urlsplit(json.loads(server.line())["url"])
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect((address.hostname, address.port))
        deaf.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: test\r\n\r\n" * 100)
        deaf.recv(1)
        time.sleep(
            1
        )  # until every buffer between the two is full; an answer that fits would end the connection
        server.process.send_signal(signal.SIGTERM)
        while True:  # until it accepts nobody any more
            try:
                socket.create_connection((address.hostname, address.port), HANG_SECONDS).close()
            except ConnectionError:
                break
        assert server.process.poll() is None
        assert server.end(signal.SIGTERM) == 0


def test_a_setting_from_the_environment_counts_and_an_option_counts_more(
    terminal: Terminal, started: Callable[..., Started]
) -> None:
    store = f"sqlite:///{terminal.folder / 'named.db'}"
    env = {"INTERLOCK_STORE": store, "INTERLOCK_PORT": "1"}
    announced = json.loads(started("--port", "0", "--json", env=env).line())
    assert announced["store"] == store
    assert (terminal.folder / "named.db").exists()


def test_a_bad_policy_is_refused_before_anything_listens(terminal: Terminal) -> None:
    said = terminal.process("serve", "--port", "0", "--policy", terminal.file("bad.yaml", "version: v2\n"))
    assert (said.code, said.out) == (1, "")
    assert "bad.yaml:1:10" in said.err
    assert not (terminal.folder / ".interlock").exists()


def test_a_broker_without_its_client_is_refused_before_anything_listens(terminal: Terminal) -> None:
    # Python reads this first, and then cannot import it: as if it were not installed.
    terminal.file("sitecustomize.py", "import sys; sys.modules['nats'] = None")
    without = {"PYTHONPATH": os.pathsep.join((str(terminal.folder), *sys.path))}
    said = terminal.process("serve", "--port", "0", "--nats-url", "nats://127.0.0.1:1", env=without)
    assert (said.code, said.out) == (2, "")
    assert "pip install '.[nats]'" in said.err


def test_a_port_in_use_is_said_in_one_line(terminal: Terminal) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = terminal.process("serve", "--port", port)
    assert said.code == 1
    _is_one_line(said.err, [f"127.0.0.1:{port} is in use", "--port"])


def test_an_address_of_somebody_else_is_said_in_one_line(terminal: Terminal) -> None:
    said = terminal.process("serve", "--host", "192.0.2.1", "--port", "0")
    assert said.code == 1
    _is_one_line(said.err, ["cannot listen on 192.0.2.1", "--host"])


def test_a_store_that_cannot_be_opened_is_said_in_one_line(terminal: Terminal) -> None:
    for store, advice in (
        ("sqlite:////proc/nowhere/interlock.db", "check the path"),
        ("postgresql://nobody@127.0.0.1:1/x", "check host and port"),
    ):
        said = terminal.process("serve", "--port", "0", "--store", store)
        assert said.code == 6
        _is_one_line(said.err, [advice])


def test_a_store_of_a_newer_version_is_refused_in_one_line(terminal: Terminal) -> None:
    terminal("init")
    database = apsw.Connection(str(terminal.folder / ".interlock" / "interlock.db"))
    database.execute("PRAGMA user_version = 9999")
    database.close()
    for words in (("serve", "--port", "0"), ("jobs", "--patience", "0s"), ("key", "list")):
        said = terminal.process(*words)
        assert said.code == 1
        _is_one_line(said.err, ["schema 9999", "newer Interlock"])


@pytest.mark.parametrize(
    "words",
    [
        ("--lanes", "99"),
        ("--port", "many"),
        ("--log-level", "loud"),
        ("--store", "file.db"),
        ("--lock-busy-status", "500"),
        ("--metrics-address", "9700"),
        ("--metrics-address", "127.0.0.1:99999"),
        ("--metrics-address", "203.0.113.1:9700", "--port", "0", "--store", "memory:"),
    ],
)
def test_a_setting_that_cannot_be_used_is_wrong_usage(terminal: Terminal, words: Sequence[str]) -> None:
    said = terminal.process("serve", *words)
    assert said.code == 2
    assert "Traceback" not in said.err


def test_a_password_is_never_printed(
    terminal: Terminal, started: Callable[..., Started], postgres_url: str
) -> None:
    from urllib.parse import urlsplit

    parts = urlsplit(postgres_url)
    user = parts.username or "postgres"
    url = parts._replace(netloc=f"{user}:s3cret@{parts.netloc.rpartition('@')[2]}").geturl()
    announced = json.loads(started("--port", "0", "--store", url, "--json").line())
    assert "s3cret" not in announced["store"]


def test_the_same_commands_work_on_a_server(
    terminal: Terminal, serve: Callable[..., InterlockServer], sqlite_url: str
) -> None:
    server = serve(sqlite_url)
    terminal.use(
        INTERLOCK_URL=server.url, INTERLOCK_KEY=server.create_key("root", roles="admin,submit,review").key
    )
    policy = terminal.file("policy.yaml", "version: v1\ndefault: require_human\n")
    assert terminal("policy", "apply", policy).code == 0
    job = terminal.submit()
    terminal.use(INTERLOCK_KEY=server.create_key("mia", roles="review").key)
    assert "0 of 1" in terminal("approvals").out
    assert terminal("approve", job["id"], "--job-hash", job["job_hash"]).code == 0
    assert terminal("job", job["id"], "--json").json["state"] == "PENDING"
    assert not (terminal.folder / ".interlock").exists()
    assert os.environ["INTERLOCK_URL"] == server.url


def _is_one_line(text: str, parts: Sequence[str]) -> None:
    assert text.count("\n") == 1, text
    for part in parts:
        assert part in text

"""An answer that got lost on its way: the command says how to find out what became of it."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.cli.terminal import POLICY, Terminal
from tests.harness.server import InterlockServer


@contextmanager
def losing(server: InterlockServer) -> Iterator[str]:
    """An address from which every change reaches the server, and no answer to it comes back."""

    class Loses(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            there = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            there.request("POST", self.path, body, dict(self.headers))
            there.getresponse().read()
            there.close()
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Loses) as relay:
        threading.Thread(target=relay.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{relay.server_port}"
        relay.shutdown()


@pytest.fixture
def server(terminal: Terminal, serve: Callable[..., InterlockServer], sqlite_url: str) -> InterlockServer:
    return serve(sqlite_url, policy=terminal.folder / terminal.file("policy.yaml", POLICY))


@pytest.fixture
def key(server: InterlockServer) -> str:
    return server.create_key("payer", kind="agent", roles="submit,work").key


@pytest.mark.parametrize(
    ("words", "listing"), [(("submit", "knowledge.read"), "jobs"), (("run", "start", "nightly"), "runs")]
)
def test_what_takes_a_name_says_the_name_that_tells(
    terminal: Terminal, server: InterlockServer, key: str, words: tuple[str, ...], listing: str
) -> None:
    with losing(server) as url:
        lost = terminal(*words, "--url", url, "--api-key", key, "--patience", "0s")
    told = lost.err.partition("the same command with ")[2].partition(" tells")[0].split()
    assert (lost.code, told[:1]) == (6, ["--key"]), lost.err
    again = terminal(*words, *told, "--url", server.url, "--api-key", key)
    listed = terminal(listing, "--url", server.url, "--api-key", key, "--json")
    assert (again.code, len(listed.json["items"])) == (0, 1)


def test_what_takes_none_says_to_look_first(terminal: Terminal, server: InterlockServer, key: str) -> None:
    with losing(server) as url:
        lost = terminal("lease", "acquire", "repo:x", "--url", url, "--api-key", key, "--patience", "0s")
    assert (lost.code, lost.err.endswith("; look before you run it again\n")) == (6, True), lost.err

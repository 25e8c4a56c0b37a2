"""The server under test is a process that can be ended in every way, and the load generator tells the truth.

A few lines of standard library stand in for Interlock here: what is tested is the harness.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.load import Request, fire, get, parse, post, quantile, tally
from tests.harness.processes import is_running
from tests.harness.server import InterlockServer

STAND_IN = """
import http.server, json, os, signal, subprocess, sys, threading, time

class Answering(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.answer({"outcome": "read", "pid": os.getpid(), "setting": os.environ.get("INTERLOCK_SETTING")})
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/hang-up":
            self.close_connection = True
            return
        if self.path == "/wait":
            time.sleep(1)
        self.answer({"outcome": "echoed", "body": json.loads(body)})
    def answer(self, document):
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        if self.path == "/chunked":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for i in range(0, len(body), 7):
                self.wfile.write(b"%x\\r\\n%s\\r\\n" % (len(body[i:i + 7]), body[i:i + 7]))
            self.wfile.write(b"0\\r\\n\\r\\n")
        else:
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
    def log_message(self, *_): pass

class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 256

child = subprocess.Popen(["sleep", "600"])
print("child", child.pid, flush=True)
server = Server(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Answering)
signal.signal(signal.SIGTERM, lambda *_: (child.kill(), os._exit(7)))
server.serve_forever()
"""


@pytest.fixture
def server() -> Iterator[InterlockServer]:
    server = InterlockServer(
        "memory:", command=[sys.executable, "-c", STAND_IN], env={"INTERLOCK_SETTING": "given"}
    )
    server.start()
    yield server
    server.close()


async def test_it_is_ready_when_start_returns_and_gets_only_the_settings_it_was_given(
    server: InterlockServer,
) -> None:
    (answer,) = await fire(server.url, [get("/")])
    assert answer.json() == {"outcome": "read", "pid": server.pid, "setting": "given"}


def test_a_kill_takes_its_children_along_and_a_restart_keeps_the_address(server: InterlockServer) -> None:
    url, pid = server.url, server.pid
    child = next(int(line.split()[1]) for line in server.log().splitlines() if line.startswith("child "))
    server.kill()
    assert not is_running(pid)
    assert not is_running(child)
    server.restart()
    assert server.url == url
    assert server.running


def test_terminate_returns_the_exit_code(server: InterlockServer) -> None:
    assert server.terminate() == 7
    assert not server.running


async def test_a_paused_server_answers_after_it_resumes(server: InterlockServer) -> None:
    server.pause()
    asked = asyncio.create_task(fire(server.url, [get("/")]))
    done, _ = await asyncio.wait([asked], timeout=0.3)
    assert not done
    server.resume()
    assert tally(await asked) == {(200, "read"): 1}


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    server = InterlockServer("memory:", command=[sys.executable, "-c", "raise SystemExit('no such store')"])
    with pytest.raises(RuntimeError, match="no such store"):
        server.start()
    server.close()
    assert not server.folder.exists()


async def test_answers_come_in_the_order_of_their_requests(server: InterlockServer) -> None:
    answers = await fire(server.url, [post("/", {"n": n}) for n in range(300)], connections=20)
    assert [answer.json()["body"]["n"] for answer in answers] == list(range(300))
    assert tally(answers) == {(200, "echoed"): 300}
    assert 0 < quantile(answers, 0.5) <= quantile(answers, 0.95)


async def test_chunked_answers_are_joined(server: InterlockServer) -> None:
    (answer,) = await fire(server.url, [post("/chunked", {"text": "x" * 1000})])
    assert answer.json()["body"] == {"text": "x" * 1000}


async def test_a_lost_connection_is_an_answer_too_and_the_next_request_dials_again(
    server: InterlockServer,
) -> None:
    requests = [post("/", 1), Request(method="POST", path="/hang-up"), post("/", 2)]
    answers = await fire(server.url, requests, connections=1)
    assert [answer.status for answer in answers] == [200, 0, 200]
    assert answers[1].error == "ConnectionResetError"


async def test_a_server_killed_under_load_answers_nothing_it_did_not(server: InterlockServer) -> None:
    asked = asyncio.create_task(fire(server.url, [post("/wait", n) for n in range(20)], connections=10))
    await asyncio.sleep(0.3)
    server.kill()
    answers = await asked
    assert {answer.status for answer in answers} == {0}
    assert all(answer.error for answer in answers)


def test_an_incomplete_answer_is_not_an_answer() -> None:
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"
    for size in range(len(whole)):
        assert parse(bytearray(whole[:size])) is None
    complete = parse(bytearray(whole))
    assert complete is not None
    assert complete.body == b"abc"

"""A real HTTP server on a real socket that answers as it is told: the far side of the remote clients."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from interlock.sdk.flow import Request, Response


class Cut:
    """Read the request, then close the connection without a word."""


class Hang:
    """Read the request, then answer only when the server is closed."""


class Trickle:
    """Answer without an end: a byte now and then, for as long as the client stays."""


Told = Response | Cut | Hang | Trickle
Answering = Callable[[Request], Told]


class ScriptedServer:
    """Answers with what `answering` says; keeps every request it received."""

    def __init__(self, answering: Answering) -> None:
        self.answering = answering
        self.received: list[Request] = []
        self.ports: list[int] = []  # the client's side of the connection that carried each of them
        self.closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._bound_handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        self.port = int(self._server.server_address[1])
        self.url = f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _bound_handler(self) -> type[BaseHTTPRequestHandler]:
        owner = self

        class Handler(_Handler):
            server_owner = owner

        return Handler


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_owner: ScriptedServer

    def answer(self) -> None:
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(method=self.command, path=path, query=query, headers=headers, body=body)
        self.server_owner.received.append(request)
        self.server_owner.ports.append(self.client_address[1])
        told = self.server_owner.answering(request)
        if isinstance(told, Response):
            self.reply(told)
            return
        if isinstance(told, Hang):
            self.server_owner.closing.wait(60)
        if isinstance(told, Trickle):
            self.trickle()
        self.close_connection = True

    do_GET = do_POST = do_PUT = answer  # noqa: N815 - the names that http.server looks for

    def reply(self, told: Response) -> None:
        self.send_response(told.status)
        for name, value in told.headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(told.body)))
        self.end_headers()
        self.wfile.write(told.body)

    def trickle(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "1000000")
        self.end_headers()
        with contextlib.suppress(OSError):
            while not self.server_owner.closing.is_set():
                self.wfile.write(b" ")
                time.sleep(0.02)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass


@contextlib.contextmanager
def serving(answering: Answering) -> Iterator[ScriptedServer]:
    """A server that is there for the block."""
    server = ScriptedServer(answering)
    try:
        yield server
    finally:
        server.close()


def in_turn(*told: Told) -> Answering:
    """Answer in this order; the last repeats."""
    left = list(told)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]

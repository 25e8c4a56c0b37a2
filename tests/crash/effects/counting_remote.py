"""A remote side that counts: a real HTTP server in this process, asked by processes that are about to die."""

from __future__ import annotations

import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any


class Remote:
    """Takes every POST as one charge under the key in its path."""

    def __init__(self) -> None:
        self.charges: Counter[str] = Counter()
        self._lock = threading.Lock()
        remote = self

        class Charging(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                with remote._lock:
                    remote.charges[self.path.strip("/")] += 1
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Charging)
        self.port = self._server.server_address[1]

    def __enter__(self) -> Remote:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

"""A few pages of a test's own on 127.0.0.1, each under the Content-Security-Policy that the test gives it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

STRICT = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'"


@contextlib.contextmanager
def static_site(body: str, *, script: str = "", policy: str = STRICT) -> Iterator[str]:
    """Serves one page with `body` at every path, and `script` at `/script.js`; gives the page's URL."""
    html = f"<!doctype html><html lang=en><title>A page</title><main><h1>A page</h1>{body}</main></html>"

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_script = self.path == "/script.js"
            content = (script if is_script else html).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/javascript" if is_script else "text/html; charset=utf-8")
            self.send_header("Content-Security-Policy", policy)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()

"""Why a server cannot be reached: TLS to a plain port, plain words to TLS, nobody there; each in its own sentence."""

from __future__ import annotations

import contextlib
import http.server
import ssl
import threading
from collections.abc import Generator
from pathlib import Path

import pytest

from interlock.cli.main import main
from interlock.sdk.flow import TransportFailed
from interlock.sdk.transports import why
from tests.harness.certificate_authority import Authority
from tests.sdk.test_transports import POST, Send, send_async, send_blocking, unused_port


@pytest.fixture(params=[send_blocking, send_async], ids=["blocking", "async"])
def send(request: pytest.FixtureRequest) -> Send:
    return request.param


@contextlib.contextmanager
def listening(context: ssl.SSLContext | None = None) -> Generator[str]:
    """A web server with or without TLS; yields host and port."""

    class Silent(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Silent)
    server.handle_error = lambda *_: None  # pyright: ignore[reportAttributeAccessIssue] - a failed handshake is meant
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def test_tls_spoken_to_a_plain_port_is_named(send: Send) -> None:
    with listening() as place, pytest.raises(TransportFailed) as failed:
        send(f"https://{place}", POST)
    assert failed.value.reason.startswith(f"{place} does not speak TLS; use http://{place}")
    assert not failed.value.may_have_been_received


def test_plain_words_to_a_port_that_wants_tls_are_named(send: Send, tmp_path: Path) -> None:
    context, _ = Authority(tmp_path).server("127.0.0.1")
    with listening(context) as place, pytest.raises(TransportFailed) as failed:
        send(f"http://{place}", POST)
    assert failed.value.reason == f"{place} speaks TLS, and http:// does not; use https://{place}"
    assert not failed.value.may_have_been_received


def test_a_certificate_that_nobody_vouches_for_is_named(send: Send, tmp_path: Path) -> None:
    context, _ = Authority(tmp_path).server("127.0.0.1")
    with listening(context) as place, pytest.raises(TransportFailed, match="is not trusted"):
        send(f"https://{place}", POST)


def test_a_server_that_asks_for_a_certificate_of_the_client_is_named() -> None:
    # With TLS 1.3 this may arrive as a broken pipe: which it is, a race decides that no test can.
    alert = ssl.SSLError(1, "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required")
    alert.reason = "TLSV13_ALERT_CERTIFICATE_REQUIRED"
    told = why(alert, "https://interlock.example:8700")
    assert told.startswith("interlock.example:8700 lets in only clients that show a certificate")


def test_a_port_that_nobody_listens_at_is_named(send: Send) -> None:
    place = f"127.0.0.1:{unused_port()}"
    with pytest.raises(TransportFailed) as failed:
        send(f"http://{place}", POST)
    assert failed.value.reason == f"nothing listens at {place}"


def test_the_command_line_says_it_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with listening() as place:
        code = main(["jobs", "--url", f"https://{place}", "--api-key", "il_a_b", "--patience", "0s"])
    said = capsys.readouterr().err
    assert (code, len(said.splitlines())) == (6, 1)
    assert f"{place} does not speak TLS; use http://{place}" in said

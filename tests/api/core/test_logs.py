"""Logs say what happened to each request, and never what was in it."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.kernel.codec.visible import is_visible
from interlock.service.logs import Log, StandardLogs, taking_standard_logs
from interlock.wire.http import Request
from tests.api.core.sample_service import Service
from tests.harness.server import InterlockServer, Key

SECRET = "sk_live_hunter2swordfish"


def parsed(service: Service) -> list[dict[str, Any]]:
    return [json.loads(line) for line in service.lines]


async def test_each_request_is_one_json_line_with_its_route_and_caller(service: Service) -> None:
    await service.ask("GET", "/api/v1/things/vase", x_request_id="r1")
    assert len(service.lines) == 1
    line = parsed(service)[0]
    assert line.pop("ts").endswith("Z")
    assert line.pop("duration_ms") >= 0
    assert line == {
        "level": "info",
        "event": "request",
        "request_id": "r1",
        "method": "GET",
        "route": "/api/v1/things/{key}",
        "status": 200,
        "tenant": "acme",
        "principal": "ada",
    }
    assert service.lines[0].endswith("\n")
    assert "\n" not in service.lines[0][:-1]


async def test_a_refusal_is_logged_with_its_code(service: Service) -> None:
    await service.ask("POST", "/api/v1/things", {}, key=None)
    line = parsed(service)[0]
    assert (line["status"], line["code"]) == (401, "unauthenticated")
    assert "principal" not in line


async def test_text_lines_are_for_people(serving: Callable[..., Service]) -> None:
    service = serving(form="text")
    await service.ask("POST", "/api/v1/things", {}, x_request_id="r9")
    assert "POST /api/v1/things 400" in service.lines[0]
    assert "code=invalid_request tenant=acme principal=ada request_id=r9" in service.lines[0]


@pytest.mark.parametrize("form", ["json", "text"])
async def test_no_secret_sent_anywhere_reaches_the_log(serving: Callable[..., Service], form: str) -> None:
    service = serving(form=form, level="debug")
    headers = {"x_api_key": SECRET, "idempotency_key": SECRET, "cookie": SECRET, "user_agent": SECRET}
    for method, path in [
        ("POST", "/api/v1/things"),
        ("GET", f"/api/v1/things/{SECRET}"),
        ("GET", f"/{SECRET}"),
        ("GET", f"/%{SECRET}"),
        (SECRET, "/api/v1/things"),
        ("POST", f"/api/v1/refuse/{SECRET}"),
        ("POST", "/api/v1/broken"),
        ("GET", "/api/v1/broken"),
        ("POST", "/api/v1/things/a/remark"),
    ]:
        for key in (SECRET, "key-of-ada"):
            for body in ({"name": SECRET, SECRET: SECRET}, SECRET.encode(), None):
                for query in ("", f"state={SECRET}", f"{SECRET}=1"):
                    await service.ask(method, path, body, query=query, key=key, **headers)
    text = "".join(service.lines)
    assert len(service.lines) >= 9 * 2 * 3 * 3
    assert "NobodyExpectedThis" in text
    assert SECRET not in text
    assert "hunter2" not in text
    assert "swordfish" not in text
    assert "key-of-ada" not in text


async def test_a_bug_is_logged_with_its_message_but_without_the_words_of_the_request(
    service: Service,
) -> None:
    body = json.dumps({"note": "Geheimnis-\u00e9t\u00e9-42"}).encode()
    await service.ask("POST", "/api/v1/broken", body, query="")
    fault = parsed(service)[0]
    assert fault["exceptions"][0]["message"].startswith("no luck with")
    assert "Geheimnis" not in service.lines[0]


@given(st.text("abcdef", min_size=6, max_size=12), st.text(max_size=20), st.text(max_size=20))
def test_a_secret_glued_to_other_words_is_blacked_out(secret: str, before: str, after: str) -> None:
    lines: list[str] = []
    request = Request(method="POST", path="/", headers={"authorization": f"Bearer {secret}"})
    Log(write=lines.append).fault(
        ValueError(f"x {before}{secret}{after} y"), request=request, request_id="r", route="/"
    )
    assert secret not in json.loads(lines[0])["exceptions"][0]["message"]


def test_causes_are_logged_from_the_outside_in() -> None:
    lines: list[str] = []

    def raises() -> None:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise RuntimeError("outer") from error

    with pytest.raises(RuntimeError) as raised:
        raises()
    request = Request(method="GET", path="/")
    Log(write=lines.append).fault(raised.value, request=request, request_id="r", route="/")
    types = [described["type"] for described in json.loads(lines[0])["exceptions"]]
    assert types == ["builtins.RuntimeError", "builtins.KeyError"]


def test_a_level_hides_the_ones_below_it() -> None:
    lines: list[str] = []
    log = Log(write=lines.append, level="warning")
    log.event("info", "quiet")
    log.request(request_id="r", method="GET", route="/", status=200, duration_ms=1.0)
    assert lines == []
    log.event("warning", "loud", attempt=2)
    log.request(request_id="r", method="GET", route="/", status=503, duration_ms=1.0)
    log.request(request_id="r", method="GET", route="/", status=500, duration_ms=1.0)
    assert [json.loads(line)["level"] for line in lines] == ["warning", "warning", "error"]


def test_a_line_break_in_a_value_cannot_forge_a_line() -> None:
    for form in ("json", "text"):
        lines: list[str] = []
        Log(write=lines.append, form=form).event(
            "info", "a\nb", who="x\n12:00:00 info forged\x1b[2J\u3164\u202e"
        )
        assert lines[0].count("\n") == 1
        assert is_visible(lines[0][:-1])
        assert "\\u3164\\u202e" in lines[0]


def test_records_of_the_standard_library_go_the_same_way() -> None:
    lines: list[str] = []
    logger = logging.Logger("asyncio")
    logger.addHandler(StandardLogs(Log(write=lines.append, level="debug")))
    logger.info("started on %s", "port")
    try:
        raise ValueError("broken")
    except ValueError:
        logger.exception("it broke")
    first, second = map(json.loads, lines)
    assert (first["event"], first["level"], first["logger"]) == ("started on port", "info", "asyncio")
    assert (second["level"], second["exceptions"][0]["type"]) == ("error", "builtins.ValueError")


def test_what_loops_and_libraries_log_goes_the_same_way_but_no_addresses() -> None:
    lines: list[str] = []
    ours, client = logging.getLogger("interlock.service.sweeps"), logging.getLogger("httpx2")
    with taking_standard_logs(Log(write=lines.append, level="info"), "info"):
        ours.info("waits")
        ours.debug("too much")
        client.info("POST https://example.com/hook?token=secret")
        client.warning("gave up")
    ours.warning("nobody takes this any more")

    said = [(line["event"], line["level"], line["logger"]) for line in map(json.loads, lines)]
    assert said == [("waits", "info", ours.name), ("gave up", "warning", client.name)]


def test_a_servers_whole_log_is_json(tmp_path: Path) -> None:
    server = InterlockServer(
        f"sqlite:///{tmp_path / 'a.db'}", arguments=["--json", "--acquire-seconds", "0.2"]
    )
    try:
        key = server.start().create_key("bot", kind="agent", roles="submit")
        for file in tmp_path.iterdir():
            file.unlink()
        trouble = "nothing can be decided"
        for _ in range(100):
            assert submit(server, key) == 503
            if trouble in server.log():
                break
        lines = [json.loads(line) for line in server.log().splitlines()]
    finally:
        server.close()
    assert any(line["event"].startswith(trouble) for line in lines if "event" in line)


def submit(server: InterlockServer, key: Key) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    with contextlib.closing(connection):
        connection.request("POST", "/api/v1/jobs", b'{"topic": "x", "payload": 1}', key.headers)
        return connection.getresponse().status


def test_a_log_that_nobody_takes_costs_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody, end = os.pipe()
    os.close(nobody)
    with os.fdopen(end, "w", buffering=1) as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        for _ in range(3):
            Log().event("info", "x" * 10_000)
        monkeypatch.undo()
        os.dup2(os.open(os.devnull, os.O_WRONLY), end)
    monkeypatch.setattr(sys, "stderr", stderr)
    Log().event("info", "and when it is closed")


def test_lines_go_to_stderr_unless_told_otherwise(capsys: pytest.CaptureFixture[str]) -> None:
    Log().event("info", "hello")
    captured = capsys.readouterr()
    assert json.loads(captured.err)["event"] == "hello"
    assert captured.out == ""

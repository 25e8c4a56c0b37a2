"""Whatever is asked, the core answers: in the declared form, or with a problem document."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from interlock.api.app import App
from interlock.api.operations import Call
from interlock.wire.http import Request
from tests.api.core.sample_service import Service, refused


async def test_a_reply_is_encoded_with_its_status_and_headers(service: Service) -> None:
    response = await service.ask("POST", "/api/v1/things", {"name": "vase"})
    assert response.status == 201
    assert response.header("content-type") == "application/json"
    assert response.header("content-length") == str(len(response.body))
    assert response.header("location") == "/things/thing_1"
    assert response.header("cache-control") == "no-store"


async def test_an_unknown_key_is_unauthenticated_and_told_the_scheme(service: Service) -> None:
    response = await service.ask("POST", "/api/v1/things", {"name": "x"}, key="wrong")
    assert (response.status, refused(response)["code"]) == (401, "unauthenticated")
    assert response.header("www-authenticate") == 'Bearer realm="interlock"'
    assert service.shelf.placed == []


async def test_a_missing_role_is_forbidden_and_named(service: Service) -> None:
    response = await service.ask("GET", "/api/v1/audit")
    assert (response.status, refused(response)["roles"]) == (403, ["audit"])


async def test_who_may_not_act_is_not_told_what_is_wrong_with_the_body(service: Service) -> None:
    response = await service.ask("POST", "/api/v1/things", b"{", key=None)
    assert response.status == 401


async def test_a_public_operation_needs_no_key_and_has_no_caller(service: Service) -> None:
    assert (await service.ask("GET", "/healthz", key=None)).status == 200
    call: Call[Any, None, None, None] = Call(
        operation_id="health",
        request=Request(method="GET", path="/"),
        request_id="r",
        services=None,
        path={},
        query=None,
        body=None,
    )
    with pytest.raises(LookupError, match="public"):
        _ = call.caller


async def test_an_unknown_path_is_not_found_even_without_a_key(service: Service) -> None:
    assert refused(await service.ask("GET", "/api/v1/nothing", key=None))["code"] == "not_found"


async def test_a_wrong_method_is_refused_with_those_allowed(service: Service) -> None:
    response = await service.ask("DELETE", "/api/v1/things")
    assert (response.status, refused(response)["code"]) == (405, "method_not_allowed")
    assert response.header("allow") == "GET, HEAD, OPTIONS, POST"


async def test_head_answers_as_get_without_the_body(service: Service) -> None:
    get = await service.ask("GET", "/api/v1/things/a")
    head = await service.ask("HEAD", "/api/v1/things/a")
    assert (head.status, head.body) == (200, b"")
    assert head.header("content-length") == get.header("content-length") == str(len(get.body))
    assert (await service.ask("HEAD", "/api/v1/stream")).stream is None


async def test_options_lists_the_methods_of_a_path(service: Service) -> None:
    response = await service.ask("OPTIONS", "/api/v1/things/a", key=None)
    assert (response.status, response.header("allow"), response.body) == (204, "GET, HEAD, OPTIONS", b"")
    assert response.header("content-length") is None
    assert (await service.ask("OPTIONS", "/nothing")).status == 404


async def test_options_of_the_whole_server_lists_every_method(service: Service) -> None:
    response = await service.ask("OPTIONS", "*", key=None)
    assert response.status == 204
    assert response.header("allow") == "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"


async def test_a_path_beyond_the_limit_is_too_long(service: Service) -> None:
    response = await service.ask("GET", "/api/v1/things/" + "x" * 9000)
    assert (response.status, refused(response)["limit_bytes"]) == (414, 8192)


async def test_a_rooms_refusal_is_translated(service: Service) -> None:
    response = await service.ask("POST", "/api/v1/refuse/seat")
    problem = refused(response)
    assert (response.status, problem["code"], problem["state"]) == (409, "conflict", "taken")


async def test_a_retryable_problem_says_when_in_whole_seconds_rounded_up(service: Service) -> None:
    response = await service.ask("POST", "/api/v1/busy")
    problem = refused(response)
    assert (response.header("retry-after"), problem["retry_after_ms"], problem["holder"]) == (
        "2",
        1001,
        "someone",
    )


async def test_a_problem_that_a_room_encoded_itself_gets_the_same_headers_and_is_counted(
    service: Service,
) -> None:
    response = await service.ask("POST", "/api/v1/stored-problem")
    assert response.header("retry-after") == "3"
    assert 'problems_total{code="policy_throttled",status="429"} 1' in service.metrics.exposition()


@pytest.mark.parametrize("path", ["/api/v1/broken", "/api/v1/refuse/translation-breaks"])
async def test_a_bug_is_an_opaque_500_whose_request_id_leads_to_the_log(service: Service, path: str) -> None:
    response = await service.ask(
        "POST", path, b"boo" if "broken" in path else None, content_type="text/plain"
    )
    problem = refused(response)
    assert (response.status, problem["code"]) == (500, "internal_error")
    assert not any(
        word in response.body.decode()
        for word in ("Nobody", "KeyError", "Traceback", "sample_service", "boo")
    )
    fault = next(line for line in map(json.loads, service.lines) if line["event"] == "fault")
    assert fault["request_id"] == problem["request_id"] == response.header("x-request-id")
    assert any("sample_service.py" in frame for frame in fault["exceptions"][0]["frames"])


async def test_a_sane_request_id_is_kept_and_any_other_replaced(service: Service) -> None:
    kept = await service.ask("GET", "/healthz", x_request_id="trace-7f.a:b_C")
    assert kept.header("x-request-id") == "trace-7f.a:b_C"
    for bad in ("", "a b", "x" * 129, "inject\nion", "caf\xe9", '"'):
        replaced = await service.ask("GET", "/healthz", x_request_id=bad)
        assert str(replaced.header("x-request-id")).startswith("req_")


async def test_requests_and_problems_are_counted_by_operation_and_code(service: Service) -> None:
    await service.ask("POST", "/api/v1/things", {"name": "x"})
    await service.ask("POST", "/api/v1/things", {})
    await service.ask("GET", "/nothing/at/all")
    text = service.metrics.exposition()
    assert 'interlock_http_requests_total{operation="place_thing",status="201"} 1' in text
    assert 'interlock_http_requests_total{operation="none",status="404"} 1' in text
    assert 'interlock_http_problems_total{code="invalid_request",status="400"} 1' in text
    assert 'interlock_http_request_seconds_count{operation="place_thing"} 2' in text


def test_two_operations_with_one_id_are_a_mistake(service: Service) -> None:
    with pytest.raises(ValueError, match="place_thing"):
        App(
            operations=(*service.app.operations, service.app.operations[0]),
            services=service.shelf,
            authenticate=None,  # pyright: ignore[reportArgumentType]
            translate=lambda error: None,
            log=None,  # pyright: ignore[reportArgumentType]
            metrics=service.metrics,
        )


def test_the_core_starts_without_a_server_or_anything_heavy() -> None:
    script = (
        "import sys, interlock.api.app, interlock.api.heads, interlock.kernel.codec.strict\n"
        "heavy = {'granian', 'httpx2', 'asyncpg', 'apsw', 'cryptography', 'rfc8785', 'difflib', "
        "'yaml', 'urllib.request', 'http.client', 'interlock.api.openapi', 'html'}\n"
        "found = heavy & set(sys.modules)\n"
        "assert not found, found"
    )
    subprocess.run([sys.executable, "-c", script], check=True)

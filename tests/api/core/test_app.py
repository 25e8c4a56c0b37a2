"""Whatever is asked, the core answers: in the declared form, or with a problem document."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.api.app import App
from interlock.api.http import Request, Response
from interlock.api.operations import Body, Call, Operation, Query, RawBody, Reply

if TYPE_CHECKING:
    from .conftest import Service

PROBLEM_FIELDS = {"type", "title", "status", "detail", "code", "retryable"}


def refused(response: Response) -> dict[str, Any]:
    """Read a problem document, after checking what every one of them must have."""
    problem = json.loads(response.body)
    assert response.header("content-type") == "application/problem+json"
    assert problem.keys() >= PROBLEM_FIELDS
    assert problem["status"] == response.status
    assert problem["type"] == f"/problems/{problem['code']}"
    assert (
        problem["retryable"] == ("retry_after_ms" in problem) == (response.header("retry-after") is not None)
    )
    assert response.header("x-request-id")
    return problem


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
        word in response.body.decode() for word in ("Nobody", "KeyError", "Traceback", "conftest", "boo")
    )
    fault = next(line for line in map(json.loads, service.lines) if line["event"] == "fault")
    assert fault["request_id"] == problem["request_id"] == response.header("x-request-id")
    assert any("conftest.py" in frame for frame in fault["exceptions"][0]["frames"])


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


def test_a_repeat_of_a_request_has_the_same_digest_and_another_request_has_not() -> None:
    def digest(**changes: Any) -> str:
        asked: dict[str, Any] = {
            "operation_id": "place_thing",
            "request": Request(method="POST", path="/things", headers={"x-request-id": "1"}),
            "request_id": "r1",
            "services": None,
            "path": {"key": "a"},
            "query": None,
            "body": None,
            "document": {"a": 1, "b": [0.5]},
        }
        return Call(**(asked | changes)).request_digest()

    assert digest() == digest(request_id="r2", document={"b": [0.5], "a": 1})
    others = [
        digest(),
        digest(operation_id="other"),
        digest(path={"key": "b"}),
        digest(document={"a": 2, "b": [0.5]}),
        digest(document=None, body=b"x"),
        digest(document=None, body=b"y"),
        digest(request=Request(method="POST", path="/things", query="x=1")),
    ]
    assert len(set(others)) == len(others)


async def nothing(call: Call[Any, Any, Any, Any]) -> Reply:
    return Reply(200, msgspec.defstruct("Nothing", [])())


class Loose(msgspec.Struct):
    """Forgets to refuse unknown fields."""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id": "Bad-Id"}, "lower-case words"),
        ({"path": "things"}, "starts with a slash"),
        ({"path": "/{a}/{a}"}, "appears twice"),
        ({"path": "/{A}"}, "whole word in braces"),
        ({"parameters": {"b": "what?"}}, "lacks"),
        ({"public": True, "roles": ("admin",)}, "cannot ask for roles"),
        ({"method": "GET", "body": Body}, "takes no body"),
        ({"problems": ("no_such_code",)}, "missing from"),
        ({"body": Loose}, "derive from"),
        ({"query": Loose}, "derive from"),
    ],
)
def test_a_declaration_that_could_not_be_served_is_a_mistake(changes: dict[str, Any], message: str) -> None:
    declared: dict[str, Any] = {
        "id": "ok",
        "method": "POST",
        "path": "/x/{a}",
        "summary": "s",
        "tag": "T",
        "answer": nothing,
    }
    Operation(**declared, body=RawBody(("text/plain",)), query=Query)
    with pytest.raises(ValueError, match=message):
        Operation(**(declared | changes))


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


paths = st.sampled_from([
    "/api/v1/things", "/api/v1/things/a", "/api/v1/things/a/remark", "/api/v1/things/a/touch",
    "/api/v1/policy", "/api/v1/audit", "/api/v1/refuse/x", "/api/v1/busy", "/healthz",
])  # fmt: skip
methods = st.sampled_from(["GET", "POST", "PUT", "HEAD", "OPTIONS", "DELETE", "X", ""])
queries = st.from_regex(r"(limit|cursor|heavy|state|x)=[^&]{0,30}(&limit=\w*)?", fullmatch=True)
names = st.sampled_from(["name", "spot", "row", "weight", "x"])
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
documents = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(names, inner), max_leaves=10
).map(lambda value: json.dumps(value).encode())
header_names = st.sampled_from(
    ["content-type", "idempotency-key", "x-request-id", "authorization", "x-other"]
)
header_texts = st.text(st.characters(max_codepoint=255), max_size=300)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    method=methods | st.text(max_size=9),
    path=paths | st.text(max_size=80) | st.builds("/api/v1/things/{}".format, st.text(max_size=40)),
    query=queries | st.text(max_size=80),
    body=documents | st.binary(max_size=200),
    headers=st.dictionaries(header_names, header_texts),
    known=st.booleans(),
)
async def test_no_request_is_answered_with_anything_but_a_declared_answer_or_a_problem(
    serving: Callable[..., Service],
    key: str,
    method: str,
    path: str,
    query: str,
    body: bytes,
    headers: dict[str, str],
    known: bool,
) -> None:
    sent = {"content-type": "application/json"} | headers
    if known:
        sent["authorization"] = f"Bearer {key}"
    service = serving()
    response = await service.app.respond(
        Request(method=method, path=path, query=query, headers=sent, body=body)
    )
    assert response.status < 500, response.body
    if response.status >= 400 and method != "HEAD":
        refused(response)
    response.body.decode()
    assert all(value.isprintable() for _, value in response.headers)


def test_the_core_starts_without_a_server_or_anything_heavy() -> None:
    script = (
        "import sys, interlock.api.app, interlock.api.asgi, interlock.codec.strict\n"
        "heavy = {'uvicorn', 'starlette', 'httpx2', 'asyncpg', 'apsw', 'cryptography', 'rfc8785', 'difflib', "
        "'yaml', 'urllib.request', 'http.client', 'interlock.api.openapi', 'html'}\n"
        "found = heavy & set(sys.modules)\n"
        "assert not found, found"
    )
    subprocess.run([sys.executable, "-c", script], check=True)

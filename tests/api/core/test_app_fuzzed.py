"""No request, however odd, gets anything but a declared answer or a problem document."""

from __future__ import annotations

import json
from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.wire.http import Request
from tests.api.core.sample_service import Service, refused

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

"""Bodies, queries and headers become the declared types, or the refusal says which part and why."""

from __future__ import annotations

import difflib
import json
from typing import Any

import pytest

from interlock.wire.http import Response
from tests.api.core.sample_service import Service


def document(response: Response) -> dict[str, Any]:
    assert response.header("content-type") == "application/problem+json"
    return json.loads(response.body)


async def faults(response: Response) -> dict[str, str]:
    problem = document(response)
    assert (response.status, problem["code"]) == (400, "invalid_request")
    return {fault["path"]: fault["reason"] for fault in problem["errors"]}


async def test_a_valid_body_reaches_the_operation_typed(service: Service) -> None:
    sent = {
        "name": "vase",
        "weight": 2.5,
        "spot": {"row": 3},
        "keep_for": "4h",
        "payload": {"x": [1, None]},
    }
    response = await service.ask("POST", "/api/v1/things", sent)
    assert (response.status, json.loads(response.body)) == (201, {"id": "thing_1", "name": "vase"})
    placed: Any = service.shelf.placed[0]
    assert (placed.spot.row, placed.weight, placed.payload) == (3, 2.5, {"x": [1, None]})


@pytest.mark.parametrize(
    ("sent", "path", "reason"),
    [
        ({}, "/name", "is required"),
        ({"name": 1}, "/name", "expected str, got int"),
        ({"name": ""}, "/name", "must not be empty"),
        ({"name": "x", "weight": "1"}, "/weight", "expected float | null, got str"),
        ({"name": "x", "spot": {"row": 1.5}}, "/spot/row", "expected int, got float"),
        ({"name": "x", "spot": {}}, "/spot/row", "is required"),
        ({"name": "x", "spots": [{"row": 1}, {"row": None}]}, "/spots/1/row", "expected int, got null"),
        ({"name": "x", "labels": {"a": 1}}, "/labels/a", "expected str, got int"),
        ({"name": "x", "wieght": 1}, "/wieght", "unknown field; did you mean 'weight'?"),
        ({"name": "x", "spot": {"row": 1, "colunm": 1}}, "/spot/colunm", "did you mean 'column'?"),
        ({"name": "x", "spots": [{"row": 1, "colunm": 1}]}, "/spots/0/colunm", "did you mean 'column'?"),
        ({"name": "x", "zzz": 1}, "/zzz", "unknown field; known are name, weight"),
        ({"name": "x", "a/b~": 1}, "/a~1b~0", "unknown field"),
        (
            {"name": "x", "keep_for": "soon"},
            "/keep_for",
            "is not valid; write a duration such as 30s",
        ),
        ([], "", "expected object, got array"),
        (None, "/name", "is required"),
    ],
)
async def test_what_does_not_fit_is_refused_with_its_path_and_reason(
    service: Service, sent: object, path: str, reason: str
) -> None:
    found = await faults(await service.ask("POST", "/api/v1/things", sent))
    assert reason in found[path]
    assert service.shelf.placed == []


async def test_every_unknown_and_missing_field_is_listed_at_once(service: Service) -> None:
    found = await faults(await service.ask("POST", "/api/v1/things", {"nmae": "x", "wieght": 1}))
    assert set(found) == {"/nmae", "/wieght", "/name"}


async def test_the_number_of_faults_listed_is_bounded(service: Service) -> None:
    found = await faults(await service.ask("POST", "/api/v1/things", {f"f{n}": 1 for n in range(500)}))
    assert len(found) == 20


async def test_no_more_names_are_guessed_at_than_are_listed(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    guessed: list[str] = []

    def guess(name: str, *_: object, **__: object) -> list[str]:
        guessed.append(name)
        return []

    monkeypatch.setattr(difflib, "get_close_matches", guess)
    await service.ask("POST", "/api/v1/things", {f"f{n}": 1 for n in range(500)})
    assert len(guessed) <= 21


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b'{"name":"a","name":"b"}', ""),
        (b'{"name":"a","payload":{"x":[{"y":1,"y":2}]}}', "/payload/x/0"),
        (b'{"name":"a","weight":1e400}', "/weight"),
        (b'{"name":"a","payload":9007199254740993}', "/payload"),
        (b'{"name":"a","payload":NaN}', "/payload"),
        (b'{"name":"\\ud800"}', "/name"),
        (b"\xff", ""),
        (b"{", ""),
        (b'{"name":"a","payload":' + b"[" * 10_000, ""),
    ],
)
async def test_json_that_is_not_strict_is_refused_before_anything_is_placed(
    service: Service, body: bytes, path: str
) -> None:
    assert path in await faults(await service.ask("POST", "/api/v1/things", body))
    assert service.shelf.placed == []


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "application/json; charset=utf-8",
        'Application/JSON ; Charset="UTF-8"',
        "application/merge-patch+json",
    ],
)
async def test_json_by_any_of_its_names_is_read(service: Service, content_type: str) -> None:
    response = await service.ask("POST", "/api/v1/things", {"name": "x"}, content_type=content_type)
    assert response.status == 201


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonx",
        "json",
        "application/+json",
        "application/json; charset=latin-1",
        "multipart/form-data; boundary=x",
        "text/json+json",
    ],
)
async def test_a_body_of_another_type_is_unsupported(service: Service, content_type: str) -> None:
    response = await service.ask("POST", "/api/v1/things", {"name": "x"}, content_type=content_type)
    problem = document(response)
    assert (response.status, problem["code"]) == (415, "unsupported_media_type")
    assert problem["supported"] == ["application/json"]


@pytest.mark.parametrize("content_type", [None, ""])
async def test_a_body_without_a_type_is_read_as_json(service: Service, content_type: str | None) -> None:
    told = await service.ask("POST", "/api/v1/things", {"name": "x"}, content_type=content_type)
    assert told.status == 201
    garbled = await service.ask("POST", "/api/v1/things", b"name=x", content_type=content_type)
    assert document(garbled)["code"] == "invalid_request"


@pytest.mark.parametrize("coding", ["gzip", "br, gzip", "x-secret"])
async def test_a_compressed_body_is_unsupported(service: Service, coding: str) -> None:
    response = await service.ask("POST", "/api/v1/things", {"name": "x"}, content_encoding=coding)
    assert (response.status, document(response)["code"]) == (415, "unsupported_media_type")
    assert coding in document(response)["detail"]
    plain = await service.ask("POST", "/api/v1/things", {"name": "x"}, content_encoding="Identity")
    assert plain.status == 201


async def test_no_body_counts_as_an_empty_object_where_nothing_is_required(service: Service) -> None:
    assert (await service.ask("POST", "/api/v1/things/a/remark")).status == 200
    assert (await service.ask("POST", "/api/v1/things/a/remark", {"note": "hi"})).status == 200


async def test_an_operation_without_a_body_takes_nothing_or_an_empty_object(service: Service) -> None:
    assert (await service.ask("POST", "/api/v1/things/a/touch")).status == 200
    assert (await service.ask("POST", "/api/v1/things/a/touch", {})).status == 200
    assert "/x" in await faults(await service.ask("POST", "/api/v1/things/a/touch", {"x": 1}))
    assert "" in await faults(await service.ask("GET", "/api/v1/things/a", {"x": 1}))


async def test_a_raw_body_is_passed_on_byte_for_byte(service: Service) -> None:
    raw = b"version: v1\n\xff\xfe"
    response = await service.ask("PUT", "/api/v1/policy", raw, content_type="application/yaml")
    assert response.body == raw
    assert response.header("content-type") == "application/yaml"
    refused = await service.ask("PUT", "/api/v1/policy", raw, content_type="text/csv")
    assert (refused.status, document(refused)["supported"]) == (415, ["application/yaml", "application/json"])


async def test_a_query_is_typed_and_has_defaults(service: Service) -> None:
    async def names(query: str) -> list[str]:
        response = await service.ask("GET", "/api/v1/things", query=query)
        assert response.status == 200, response.body
        return [item["id"] for item in json.loads(response.body)["items"]]

    assert await names("") == ["any", "50", "False"]
    assert await names("limit=7&heavy=true&state=in%20use") == ["in use", "7", "True"]
    assert await names("state=a+b&&limit=1") == ["a b", "1", "False"]
    assert await names("state=a%2Bb%26c%3D") == ["a+b&c=", "50", "False"]
    assert await names("state=&limit=&cursor=&heavy=") == await names("")


@pytest.mark.parametrize(
    ("query", "path", "reason"),
    [
        ("limit=0", "query/limit", ">= 1"),
        ("limit=201", "query/limit", "<= 200"),
        ("limit=ten", "query/limit", "expected int, got str"),
        ("limit=1e1", "query/limit", "must be written in digits"),
        ("limit=10.0", "query/limit", "must be written in digits"),
        ("unknown=", "query/unknown", "unknown field"),
        ("limit=1&limit=2", "query/limit", "appears twice"),
        ("limit=1&%6Cimit=1", "query/limit", "appears twice"),
        ("lmit=1", "query/lmit", "did you mean 'limit'?"),
        ("Limit=1", "query/Limit", "did you mean 'limit'?"),
        ("limit=%zz", "query", "two hexadecimal digits"),
        ("state=%ff", "query", "not UTF-8"),
        ("state=%00", "query", "U+0000"),
        ("heavy=perhaps", "query/heavy", "expected bool"),
        ("=1", "query/", "unknown"),
        ("&".join(f"p{n}=1" for n in range(60)), "query", "more than 50"),
    ],
)
async def test_a_query_that_does_not_fit_is_refused_by_name(
    service: Service, query: str, path: str, reason: str
) -> None:
    found = await faults(await service.ask("GET", "/api/v1/things", query=query))
    assert reason in found[path]


async def test_a_parameter_to_an_operation_without_any_is_refused(service: Service) -> None:
    found = await faults(await service.ask("POST", "/api/v1/things", {"name": "x"}, query="dry_run=1"))
    assert found == {"query/dry_run": "unknown field; none is expected"}


@pytest.mark.parametrize("key", ["k", "x" * 255, "!#~{}", "0192f0c1-7e57-7000-8000-000000000000"])
async def test_a_visible_idempotency_key_is_accepted(service: Service, key: str) -> None:
    response = await service.ask("POST", "/api/v1/things", {"name": "x"}, idempotency_key=key)
    assert response.status == 201


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 256, "tab\t", "caf\xe9", "nul\0"])
async def test_an_idempotency_key_that_cannot_be_kept_is_refused(service: Service, key: str) -> None:
    response = await service.ask("POST", "/api/v1/things", {"name": "x"}, idempotency_key=key)
    assert "visible ASCII" in (await faults(response))["header/idempotency-key"]
    assert service.shelf.placed == []

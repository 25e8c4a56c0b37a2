"""The description says what the operations do: every reference resolves, and every answer fits its schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

import interlock
from interlock.api.app import App
from interlock.api.descriptions import describing
from interlock.api.openapi import openapi
from interlock.api.operations import Media, Operation
from interlock.service.metrics import Registry
from interlock.wire.codes import CODES
from interlock.wire.http import Request, Response
from tests.api.core.sample_service import Service


@pytest.fixture
def document(service: Service) -> dict[str, Any]:
    return openapi(service.app.operations, title="Shelf", version="1.2.3")


@pytest.fixture
def described(service: Service) -> Service:
    """The same service, with the operations that describe it."""
    service.app = App(
        operations=(*service.app.operations, *describing(service.app.operations, version="1.2.3")),
        services=service.shelf,
        authenticate=service.app._authenticate,
        translate=service.app._translate,
        log=service.app._log,
        metrics=Registry(),
    )
    return service


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from references(item)


def resolved(document: Any, reference: str) -> Any:
    for step in reference.removeprefix("#/").split("/"):
        document = document[step]
    return document


def operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["operationId"]: each for item in document["paths"].values() for each in item.values()}


def test_every_reference_resolves(document: dict[str, Any]) -> None:
    found = list(references(document))
    assert len(found) > 50
    for reference in found:
        assert resolved(document, reference)


def test_every_operation_is_described_once_with_its_path_and_method(
    service: Service, document: dict[str, Any]
) -> None:
    assert document["openapi"] == "3.1.0"
    assert document["info"]["version"] == "1.2.3"
    for operation in service.app.operations:
        found = document["paths"][operation.path][operation.method.lower()]
        assert found["operationId"] == operation.id
    assert len(operations(document)) == len(service.app.operations)


def test_every_schema_is_one_that_a_validator_accepts(document: dict[str, Any]) -> None:
    for schema in document["components"]["schemas"].values():
        jsonschema_rs.Draft202012Validator({**schema, "components": document["components"]})


def test_schemas_promise_no_more_than_strict_json_accepts(document: dict[str, Any]) -> None:
    schema = {**document["components"]["schemas"]["Place"], "components": document["components"]}
    fits = jsonschema_rs.Draft202012Validator(schema).is_valid
    assert fits({"name": "x", "payload": {"a": [1, 0.5, None, {"b": "c"}]}, "labels": {"a": "b"}})
    for payload in (2**53, -(2**53), [{"a": 1e300}], "a\0b", {"a\0": 1}, [["\0"]]):
        assert not fits({"name": "x", "payload": payload})
    assert not fits({"name": "x", "spot": {"row": 2**53}})
    assert not fits({"name": "x", "weight": 1e20})
    assert not fits({"name": "x\0"})
    assert not fits({"name": "x", "labels": {"a": "\0"}})


def test_no_schema_is_left_over(document: dict[str, Any]) -> None:
    named = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert named == {reference for reference in references(document) if "/schemas/" in reference}


def test_path_query_and_header_parameters_are_described(document: dict[str, Any]) -> None:
    listed = operations(document)
    (key,) = listed["read_thing"]["parameters"]
    assert (key["name"], key["in"], key["required"]) == ("key", "path", True)
    query = {each["name"]: each for each in listed["list_things"]["parameters"]}
    assert set(query) == {"limit", "cursor", "state", "heavy"}
    limit = {"type": "integer", "minimum": 1, "maximum": 200, "default": 50}
    assert (query["limit"]["schema"], query["limit"]["in"], query["limit"]["required"]) == (
        limit,
        "query",
        False,
    )
    assert query["state"]["schema"] == {"type": "string", "pattern": "^[^\\u0000]*$"}
    (idempotency,) = listed["place_thing"]["parameters"]
    assert (idempotency["name"], idempotency["in"]) == ("Idempotency-Key", "header")
    assert all(each["in"] != "header" for each in listed["upload"]["parameters"])


def test_bodies_are_described_with_their_types_and_examples(document: dict[str, Any]) -> None:
    listed = operations(document)
    body = listed["place_thing"]["requestBody"]
    assert body["required"] is True
    assert body["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Place"}
    assert body["content"]["application/json"]["example"] == {"name": "vase", "spot": {"row": 1}}
    assert listed["remark_thing"]["requestBody"]["required"] is False
    assert set(listed["upload"]["requestBody"]["content"]) == {"application/yaml", "application/json"}
    assert "requestBody" not in listed["touch_thing"]
    assert document["components"]["schemas"]["Place"]["additionalProperties"] is False


def test_problems_are_described_by_status_with_the_codes_possible(document: dict[str, Any]) -> None:
    responses = operations(document)["place_thing"]["responses"]
    assert set(responses) == {"201", "400", "401", "403", "409", "413", "415", "422", "500", "503", "default"}
    conflict = resolved(document, responses["409"]["$ref"])
    schema = conflict["content"]["application/problem+json"]["schema"]
    assert schema["allOf"][1]["properties"]["code"]["enum"] == ["conflict", "lock_busy"]
    assert "Retry-After" in conflict["headers"]
    assert "Retry-After" not in resolved(document, responses["400"]["$ref"])["headers"]
    assert "WWW-Authenticate" in resolved(document, responses["401"]["$ref"])["headers"]
    assert set(operations(document)["health"]["responses"]) == {"200", "400", "500", "default"}


def test_keys_and_roles_are_described(document: dict[str, Any]) -> None:
    listed = operations(document)
    assert listed["place_thing"]["security"] == [{"bearer": []}, {"key": []}]
    assert listed["place_thing"]["x-roles"] == ["submit", "admin"]
    assert listed["health"]["security"] == []
    assert document["components"]["securitySchemes"]["key"]["name"] == "X-API-Key"


REQUESTS: list[tuple[str, str, object, dict[str, Any]]] = [
    ("POST", "/api/v1/things", {"name": "x"}, {}),
    ("POST", "/api/v1/things", {"nme": "x"}, {}),
    ("POST", "/api/v1/things", {"name": "x"}, {"key": None}),
    ("POST", "/api/v1/things", {"name": "x"}, {"content_type": "text/plain"}),
    ("GET", "/api/v1/things", None, {"query": "limit=3&state=new"}),
    ("GET", "/api/v1/things", None, {"query": "limit=0"}),
    ("GET", "/api/v1/things/a", None, {}),
    ("POST", "/api/v1/things/a/remark", None, {}),
    ("GET", "/api/v1/audit", None, {}),
    ("POST", "/api/v1/refuse/x", None, {}),
    ("POST", "/api/v1/busy", None, {}),
    ("POST", "/api/v1/broken", b"x", {"content_type": "text/plain"}),
    ("GET", "/healthz", None, {"key": None}),
]


@pytest.mark.parametrize(("method", "path", "body", "more"), REQUESTS)
async def test_what_is_served_is_what_is_described(
    service: Service, document: dict[str, Any], method: str, path: str, body: object, more: dict[str, Any]
) -> None:
    operation, _ = service.app._router.find(method, path)
    response = await service.ask(method, path, body, **more)
    described = operations(document)[operation.id]["responses"][str(response.status)]
    if "$ref" in described:
        described = resolved(document, described["$ref"])
    schema = described["content"][response.header("content-type")]["schema"]
    jsonschema_rs.Draft202012Validator({**schema, "components": document["components"]}).validate(
        json.loads(response.body)
    )
    sent = {name for name in described["headers"] if response.header(name.lower()) is not None}
    depends = {"Idempotency-Replayed", "Retry-After"}  # on the case; test_app.py has each
    assert sent | depends >= described["headers"].keys()


async def fetched(service: Service, path: str) -> Response:
    return await service.app.respond(Request(method="GET", path=path))


async def test_the_document_is_served_without_a_key_and_describes_itself(described: Service) -> None:
    response = await fetched(described, "/openapi.json")
    assert (response.status, response.header("content-type")) == (200, "application/json")
    assert {"openapi", "docs", "explain_problem", "place_thing"} <= operations(
        json.loads(response.body)
    ).keys()


@pytest.mark.parametrize("name", ["policy.schema.json", "interlock.schema.json"])
async def test_the_schemas_of_files_are_served_without_a_key_and_may_be_kept(
    described: Service, name: str
) -> None:
    response = await fetched(described, f"/schemas/{name}")
    assert (response.status, response.header("content-type")) == (200, "application/schema+json")
    assert response.body == (Path(interlock.__file__).parent / "schemas" / name).read_bytes()
    assert [value for each, value in response.headers if each == "cache-control"] == ["public, max-age=3600"]
    assert (await fetched(described, "/openapi.json")).header("cache-control") == "no-store"


async def test_no_other_file_is_served_as_a_schema(described: Service) -> None:
    for name in ("__init__.py", "..%2Fpy.typed", "policy", "."):
        assert (await fetched(described, f"/schemas/{name}")).status == 404


class Page:
    """A page's ids, links and tags; elements must close in the order they opened."""

    def __init__(self, text: str) -> None:
        self.ids = re.findall(r'<[^>]* id="?([^" >]+)', text)
        self.links = re.findall(r'<a [^>]*href="([^"]*)"', text)
        self.tags: set[str] = set()
        self.open: list[str] = []
        for closing, tag in re.findall(r"<(/?)([a-z][a-z0-9]*)", text):
            self.tags.add(tag)
            if closing:
                assert self.open.pop() == tag
            elif tag != "meta":
                self.open.append(tag)


async def test_the_page_shows_every_operation_and_needs_nothing_from_elsewhere(described: Service) -> None:
    response = await fetched(described, "/docs")
    text = response.body.decode()
    page = Page(text)
    assert response.header("content-type") == "text/html; charset=utf-8"
    assert "default-src 'none'" in str(response.header("content-security-policy"))
    assert {operation.id for operation in described.app.operations} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert page.open == []
    assert not page.tags & {"script", "link", "img", "iframe"}
    assert not re.search(r"https?://|url\(|@import", text)


async def test_every_link_on_the_page_leads_somewhere(described: Service) -> None:
    page = Page((await fetched(described, "/docs")).body.decode())
    for link in set(page.links):
        if link.startswith("#"):
            assert link[1:] in page.ids
        else:
            assert (await fetched(described, link)).status == 200


def test_what_an_operation_says_of_itself_is_text_and_not_markup(service: Service) -> None:
    from interlock.api.docs import documentation_page

    hostile = Operation(
        id="hostile",
        method="GET",
        path="/x/{a}",
        summary='<img src=x onerror="a">',
        description="`<b>` & <script>",
        tag="<i>T</i>",
        answer=service.app.operations[0].answer,
        answers={200: Media("text/html")},
        parameters={"a": "<u>"},
        example=None,
    )
    page = Page(documentation_page(openapi([hostile], title="<h6>", version="<s>")))
    assert not page.tags & {"img", "script", "u", "h6", "s"}
    assert page.open == []


async def test_every_problem_code_has_a_page_that_its_type_leads_to(described: Service) -> None:
    listed = (await fetched(described, "/problems")).body.decode()
    for code in CODES:
        response = await fetched(described, f"/problems/{code}")
        assert (response.status, f"<code>{code}</code>" in response.body.decode()) == (200, True)
        assert f'id="{code}"' in listed
    unknown = await fetched(described, "/problems/no_such_code")
    assert (unknown.status, unknown.header("content-type")) == (404, "application/problem+json")

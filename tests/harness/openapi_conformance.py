"""Holds every answer that a test sees to what /openapi.json says of it."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import jsonschema_rs

from interlock.api.assembly import OPERATIONS
from interlock.api.descriptions import describing
from interlock.api.openapi import openapi

# The core refuses these whatever the operation, so no operation lists them.
_OF_THE_HEAD = frozenset({414, 431})


def check_answer(method: str, path: str, status: int, content_type: str, body: bytes) -> None:
    """Raise AssertionError if the description does not allow this answer to this request."""
    operation = _operation(method, path)
    if operation is None:
        assert status in (*_OF_THE_HEAD, 204, 400, 404, 405), (
            f"{method} {path} is not described, yet it answered {status}"
        )
        return
    name = operation["operationId"]
    answer = operation["responses"].get(str(status))
    assert answer is not None or status in _OF_THE_HEAD, f"{name} may not answer {status}: {body[:300]!r}"
    answer = _resolved(answer or operation["responses"]["default"])
    media = content_type.partition(";")[0]
    kinds = {kind.partition(";")[0]: content for kind, content in answer.get("content", {}).items()}
    assert media in kinds, f"{name} answered {status} as {content_type!r}; it may as {sorted(kinds)}"
    if media.endswith("json"):
        _check_body(name, status, json.dumps(kinds[media]["schema"], sort_keys=True), json.loads(body))


@cache
def description() -> dict[str, Any]:
    """The document that the server serves."""
    return openapi((*OPERATIONS, *describing(OPERATIONS)), title="Interlock", version="0")


def _check_body(name: str, status: int, schema: str, document: Any) -> None:
    faults = [f"{fault.instance_path}: {fault.message}" for fault in _validator(schema).iter_errors(document)]
    assert not faults, f"{name} answered {status} with {document}, but {faults}"


@cache
def _validator(schema: str) -> Any:
    whole = {**json.loads(schema), "components": {"schemas": _closed_schemas()}}
    return jsonschema_rs.Draft202012Validator(whole)


def _closed_schemas() -> dict[str, Any]:
    """The shapes, with nothing allowed that is not described: a client's own notes must not be sent."""
    return {
        name: shape | {"additionalProperties": False}
        if "properties" in shape and name != "Problem"
        else shape
        for name, shape in description()["components"]["schemas"].items()
    }


@cache
def _templates() -> list[tuple[re.Pattern[str], dict[str, Any]]]:
    paths = sorted(description()["paths"].items(), key=lambda item: item[0].count("{"))
    return [(re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path))), item) for path, item in paths]


def _operation(method: str, path: str) -> dict[str, Any] | None:
    for template, item in _templates():
        if template.fullmatch(path) and method.lower() in item:
            return item[method.lower()]
    return None


def _resolved(answer: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in answer:
        return description()["components"]["responses"][answer["$ref"].rpartition("/")[2]]
    return answer

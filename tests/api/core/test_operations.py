"""Declarations that could not be served are found when they are made; repeats are told from new requests."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.api.operations import Call, Operation, Query, RawBody, Reply
from interlock.wire.fields import Body
from interlock.wire.http import Request


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

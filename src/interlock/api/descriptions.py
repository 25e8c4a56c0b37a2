"""The operations with which the API describes itself: `/openapi.json`, `/docs`, `/problems` and `/schemas`.

The documents are made on the first request, not at start-up: an embedded client never needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import msgspec

from interlock.api.operations import C, Call, Media, Operation, S
from interlock.api.problem import ProblemError, problem
from interlock.wire.codes import CODES, CodeInfo, Codes
from interlock.wire.http import Headers, Response

HTML = "text/html; charset=utf-8"
_SCHEMA = "application/schema+json"
_SCHEMAS = ("policy.schema.json", "interlock.schema.json")
_TAG = "Description"
_HTML_HEADERS: Headers = (
    ("content-type", HTML),
    ("content-security-policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    ("referrer-policy", "no-referrer"),
)
# An editor asks again after an hour: a schema changes only when another version of the server is started.
_SCHEMA_HEADERS: Headers = (("content-type", _SCHEMA), ("cache-control", "public, max-age=3600"))


def describing(
    operations: Sequence[Operation[C, S, Any, Any]],
    *,
    title: str = "Interlock",
    version: str | None = None,
    codes: Codes = CODES,
) -> tuple[Operation[C, S, Any, Any], ...]:
    """Make the public operations that describe `operations` and themselves."""

    @cache
    def document() -> dict[str, Any]:
        from interlock.api.openapi import openapi

        return openapi((*operations, *own), title=title, version=version or own_version(), codes=codes)

    @cache
    def documentation() -> bytes:
        from interlock.api.docs import documentation_page

        return documentation_page(document()).encode()

    async def describe(call: Call[C, S, None, None]) -> Response:
        return _json(document() | {"servers": [{"url": call.request.root or "/"}]})

    async def read_documentation(call: Call[C, S, None, None]) -> Response:
        return _html(documentation(), call.request.root)

    own: tuple[Operation[C, S, Any, Any], ...] = (
        _public("openapi", "/openapi.json", "This description", describe, "application/json"),
        _public("docs", "/docs", "This description, for people", read_documentation, HTML),
        *_explaining(codes),
        _public(
            "get_schema", "/schemas/{name}", "The JSON Schema of a file, for editors", _give_schema, _SCHEMA
        ),
    )
    return own


def _explaining(codes: Codes) -> tuple[Operation[Any, Any, Any, Any], ...]:
    async def list_problems(call: Call[Any, Any, None, None]) -> Response:
        return _problems(codes.values(), call.request.root)

    async def explain_problem(call: Call[Any, Any, None, None]) -> Response:
        info = codes.get(call.path["code"])
        if info is None:
            raise ProblemError(problem("not_found", "no such problem code; GET /problems lists them all"))
        return _problems([info], call.request.root)

    return (
        _public("list_problems", "/problems", "Every problem code", list_problems, HTML),
        _public("explain_problem", "/problems/{code}", "What a problem code means", explain_problem, HTML),
    )


async def _give_schema(call: Call[Any, Any, None, None]) -> Response:
    name = call.path["name"]
    if name not in _SCHEMAS:
        raise ProblemError(problem("not_found", f"no such schema; there are {' and '.join(_SCHEMAS)}"))
    return Response(status=200, headers=_SCHEMA_HEADERS, body=_schema(name))


@cache
def _schema(name: str) -> bytes:
    from importlib.resources import files

    return files("interlock").joinpath("schemas", name).read_bytes()


def _public(
    name: str, path: str, summary: str, answer: Callable[[Call[C, S, Any, Any]], Any], media_type: str
) -> Operation[C, S, Any, Any]:
    return Operation(
        id=name,
        method="GET",
        path=path,
        summary=summary,
        tag=_TAG,
        public=True,
        answer=answer,
        answers={200: Media(media_type)},
    )


def own_version() -> str:
    """The version that is installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("interlock")
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "0"


def _problems(infos: Iterable[CodeInfo], root: str) -> Response:
    from interlock.api.docs import problems_page

    return _html(problems_page(infos).encode(), root)


def _json(document: dict[str, Any]) -> Response:
    headers: Headers = (("content-type", "application/json"),)
    return Response(status=200, headers=headers, body=msgspec.json.encode(document))


def _html(page: bytes, root: str) -> Response:
    """A page whose links begin with the prefix under which the application is mounted."""
    body = page.replace(b'href="/', f'href="{root}/'.encode()) if root else page
    return Response(status=200, headers=_HTML_HEADERS, body=body)

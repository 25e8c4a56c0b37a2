"""What OpenAPI says of answers: those of an operation itself, and the problems it may end in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from typing import Any, TypeAlias

from interlock.api.codes import CodeInfo, Codes
from interlock.api.decoding import JSON
from interlock.api.operations import Media, Operation
from interlock.api.problem import MEDIA_TYPE as PROBLEM_JSON

Json: TypeAlias = dict[str, Any]
AnyOperation: TypeAlias = Operation[Any, Any, Any, Any]
SchemaOf: TypeAlias = Callable[[Any], Json]

REF = "#/components/schemas/{name}"
PROBLEM: Json = {
    "type": "object",
    "title": "Problem",
    "description": "Why the request was refused (RFC 9457), with further fields depending on the case.",
    "properties": {
        "type": {"type": "string", "format": "uri-reference", "description": "Where the code is explained."},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What happened and what to do next, for a person."},
        "code": {"type": "string", "description": "What happened, for a program."},
        "retryable": {"type": "boolean"},
        "retry_after_ms": {"type": "integer", "minimum": 1, "description": "An estimate, if retryable."},
        "errors": {
            "type": "array",
            "description": "Where an invalid request is wrong, and why.",
            "items": {
                "type": "object",
                "properties": {"path": {"type": "string"}, "reason": {"type": "string"}},
                "required": ["path", "reason"],
            },
        },
    },
    "required": ["type", "title", "status", "detail", "code", "retryable"],
}
HEADERS: Json = {
    "X-Request-Id": {"description": "Names the request in the log.", "schema": {"type": "string"}},
    "Retry-After": {
        "description": "Whole seconds to wait, rounded up.",
        "schema": {"type": "integer", "minimum": 1},
    },
    "Idempotency-Replayed": {
        "description": "Present if this is the first answer again.",
        "schema": {"type": "string", "const": "true"},
    },
    "WWW-Authenticate": {"description": "How to authenticate.", "schema": {"type": "string"}},
}


def answers_of(operation: AnyOperation, schema_of: SchemaOf) -> Json:
    """Describe what the operation answers when it succeeds, by status."""
    return {
        str(status): _answer(status, kind, operation, schema_of) for status, kind in operation.answers.items()
    }


def _answer(status: int, kind: Any, operation: AnyOperation, schema_of: SchemaOf) -> Json:
    headers = ["X-Request-Id"]
    if operation.method == "POST" and not operation.public:
        headers.append("Idempotency-Replayed")
    answer: Json = {"description": HTTPStatus(status).phrase, "headers": _headers(headers)}
    if isinstance(kind, Media):
        media_type = kind.media_type.partition(";")[0]
        schema = {"type": "object" if media_type == JSON else "string"}
        answer["content"] = {media_type: {"schema": schema}}
    elif kind is not None:
        answer["content"] = {JSON: {"schema": schema_of(kind)}}
    return answer


def problems_of(operation: AnyOperation, responses: Json, codes: Codes) -> Json:
    """Refer to one shared response for each status and the codes possible with it."""
    by_status: dict[int, list[CodeInfo]] = {}
    for code in problem_codes(operation):
        by_status.setdefault(codes[code].status, []).append(codes[code])
    described: Json = {}
    for status, infos in sorted(by_status.items()):
        name = f"Problem{status}_" + "_or_".join(info.code for info in infos)
        responses.setdefault(name, _problem(status, infos))
        described[str(status)] = {"$ref": f"#/components/responses/{name}"}
    responses.setdefault("Problem", _any_problem())
    return described | {"default": {"$ref": "#/components/responses/Problem"}}


def problem_codes(operation: AnyOperation) -> tuple[str, ...]:
    """List the codes that `operation` may answer with: its room's, then those of the core."""
    changes = operation.method != "GET"
    core = {
        "invalid_request": True,
        "unauthenticated": not operation.public,
        "forbidden": bool(operation.roles),
        "not_found": bool(operation.path_parameters),
        "job_changed": "job_id" in operation.path_parameters,
        "lock_busy": changes and not operation.public,
        "too_large": operation.body is not None,
        "unsupported_media_type": operation.body is not None,
        "idempotency_key_reused": operation.method == "POST" and not operation.public,
        "store_unavailable": not operation.public,
        "overloaded": changes and not operation.public,
        "outcome_unknown": changes and not operation.public,
        "internal_error": True,
    }
    return tuple(dict.fromkeys((*operation.problems, *(code for code, possible in core.items() if possible))))


def _problem(status: int, infos: Sequence[CodeInfo]) -> Json:
    headers = ["X-Request-Id"]
    if any(info.retryable for info in infos):
        headers.append("Retry-After")
    if status == 401:
        headers.append("WWW-Authenticate")
    narrowed = {"properties": {"code": {"enum": [info.code for info in infos]}, "status": {"const": status}}}
    schema = {"allOf": [{"$ref": REF.format(name="Problem")}, narrowed]}
    return {
        "description": "\n".join(f"- `{info.code}`: {info.meaning} {info.next_step}" for info in infos),
        "headers": _headers(headers),
        "content": {PROBLEM_JSON: {"schema": schema}},
    }


def _any_problem() -> Json:
    return {
        "description": "Any other problem.",
        "headers": _headers(["X-Request-Id"]),
        "content": {PROBLEM_JSON: {"schema": {"$ref": REF.format(name="Problem")}}},
    }


def _headers(names: Iterable[str]) -> Json:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}

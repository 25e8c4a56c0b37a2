"""The OpenAPI 3.1 document, made from the operations themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from inspect import cleandoc
from typing import Any, TypeAlias, cast

import msgspec

from interlock.api.decoder import IDEMPOTENCY_KEY_MAX, JSON
from interlock.api.operations import Media, Operation, RawBody
from interlock.api.problem import MEDIA_TYPE as PROBLEM_JSON
from interlock.kernel.codec.strict import INTEGER_MAX
from interlock.wire.codes import CODES, CodeInfo, Codes
from interlock.wire.fields import LOCAL, NEVER_NULL, SOMETIMES

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
        "next": {
            "type": "object",
            "description": "What to do next: an operation by its id, its route, and the arguments that are known. "
            "`needs` names the fields that only the caller can fill in.",
            "properties": {
                "operation": {"type": "string"},
                "method": {"type": "string"},
                "path": {"type": "string"},
                "arguments": {"type": "object"},
                "needs": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["operation", "method", "path", "arguments"],
        },
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


NO_NUL = "^[^\\u0000]*$"
ANY_JSON = "AnyJson"

_REFERENCE: Json = {"$ref": REF.format(name=ANY_JSON)}
_NUMBERS: Json = {"minimum": -INTEGER_MAX, "maximum": INTEGER_MAX}
_DETERMINING = frozenset({"$ref", "type", "anyOf", "oneOf", "allOf", "enum", "const"})
_ANY: Json = {
    "title": ANY_JSON,
    "description": "Any JSON that every parser reads alike, nested 64 levels at most.",
    "anyOf": [
        {"type": ["null", "boolean"]},
        {"type": "number", **_NUMBERS},
        {"type": "string", "pattern": NO_NUL},
        {"type": "array", "items": _REFERENCE},
        {"type": "object", "propertyNames": {"pattern": NO_NUL}, "additionalProperties": _REFERENCE},
    ],
}


class Schemas:
    """The schemas of every type that an operation takes or answers."""

    def __init__(self, operations: Iterable[AnyOperation]) -> None:
        """Make them all at once, so that types with one name get names of their own."""
        bodies = {shape for each in operations if isinstance(shape := each.body, type)}
        answers = [kind for each in operations for kind in each.answers.values() if not _is_plain(kind)]
        self._queries = {each.query for each in operations if each.query is not None}
        kinds: list[Any] = [*bodies, *answers, *self._queries]
        spelled, components = msgspec.json.schema_components(kinds, ref_template=REF)
        self._spelled = list(zip(kinds, spelled, strict=True))
        self._components = {name: narrowed(as_sent(schema)) for name, schema in components.items()}

    def of(self, kind: Any) -> Json:
        """Return the schema of `kind`, by reference."""
        return next(schema for known, schema in self._spelled if known == kind)

    def fields(self, kind: Any) -> tuple[Mapping[str, Json], Sequence[str]]:
        """Return the schemas of a struct's fields, and the names of those required."""
        component = self._components[self._name(kind)]
        return component["properties"], component.get("required", ())

    def components(self) -> Mapping[str, Json]:
        """Return every schema that is referred to; a query's own is not, only those of its fields."""
        queries = {self._name(kind) for kind in self._queries}
        named = {name: schema for name, schema in sorted(self._components.items()) if name not in queries}
        return {ANY_JSON: _ANY, **named}

    def _name(self, kind: Any) -> str:
        return str(self.of(kind)["$ref"]).rpartition("/")[2]


def as_sent(schema: Json) -> Json:
    """An answer's type as this server fills it: without its marks, and with what is always sent as required.

    The defaults in such a type are for clients that read the answer of another version. A request's type, which
    refuses unknown fields, is left as it is.
    """
    if "properties" not in schema or schema.get("additionalProperties") is False:
        return schema
    fields = {name: field for name, field in schema["properties"].items() if LOCAL not in field}
    required = [name for name, field in fields.items() if SOMETIMES not in field]
    return schema | {
        "properties": {name: _unmarked(field) for name, field in fields.items()},
        "required": required,
    }


def _unmarked(field: Json) -> Json:
    plain = {name: told for name, told in field.items() if name not in (SOMETIMES, NEVER_NULL, "default")}
    if NEVER_NULL not in field:
        return plain
    kinds = [kind for kind in plain.pop("anyOf") if kind != {"type": "null"}]
    return plain | (kinds[0] if len(kinds) == 1 else {"anyOf": kinds})


def narrowed(schema: Json) -> Json:
    """Add what strict JSON refuses to a schema and to all that is inside it."""
    schema = {name: _narrowed_inside(name, value) for name, value in schema.items()}
    kind = schema.get("type")
    if _DETERMINING.isdisjoint(schema):
        return schema | _REFERENCE
    if kind in ("integer", "number"):
        return _NUMBERS | schema
    if kind == "string" and "format" not in schema and "enum" not in schema:
        return {"pattern": NO_NUL} | schema
    if kind == "array":
        return {"items": _REFERENCE} | schema
    if kind == "object" and "properties" not in schema:
        return {"propertyNames": {"pattern": NO_NUL}, "additionalProperties": _REFERENCE} | schema
    return schema


def _narrowed_inside(name: str, value: Any) -> Any:
    if name == "description":
        return cleandoc(value)  # a docstring's further lines are indented, which a reader takes for code
    if name == "properties":
        return {field: narrowed(schema) for field, schema in cast("dict[str, Json]", value).items()}
    if name in ("items", "additionalProperties") and isinstance(value, dict):
        return narrowed(cast("Json", value))
    if name in ("anyOf", "oneOf", "allOf", "prefixItems"):
        return [narrowed(schema) for schema in cast("list[Json]", value)]
    return value


def _is_plain(kind: Any) -> bool:
    return kind is None or isinstance(kind, Media)


_ABOUT = """\
Interlock stands between agents and consequential actions. Every error is a problem document (RFC 9457);
its `code` is the word to act on, and `/problems/{code}` explains each. An answer with `retryable: true` says
when to try again, in `Retry-After` and, more precisely, in `retry_after_ms`. Repeat a POST with the same
`Idempotency-Key`, and the first answer comes back byte for byte."""
_IDEMPOTENCY_KEY: Json = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Makes a repeat safe: same key and same request, same answer.",
    "schema": {
        "type": "string",
        "minLength": 1,
        "maxLength": IDEMPOTENCY_KEY_MAX,
        "pattern": "^[\\x21-\\x7e]+$",
    },
}
_SECURITY: Json = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "Authorization: Bearer <key>"},
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "X-API-Key: <key>"},
}


def openapi(operations: Sequence[AnyOperation], *, title: str, version: str, codes: Codes = CODES) -> Json:
    """Describe `operations` as an OpenAPI 3.1 document."""
    schemas = Schemas(operations)
    responses: Json = {}
    paths: Json = {}
    for operation in operations:
        item = paths.setdefault(operation.path, {})
        item[operation.method.lower()] = _described(
            operation, schemas, problems_of(operation, responses, codes)
        )
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version, "description": _ABOUT},
        "servers": [{"url": "/"}],
        "tags": [{"name": tag} for tag in dict.fromkeys(operation.tag for operation in operations)],
        "paths": paths,
        "components": {
            "schemas": {"Problem": PROBLEM, **schemas.components()},
            "responses": dict(sorted(responses.items())),
            "headers": HEADERS,
            "securitySchemes": _SECURITY,
        },
    }


def _described(operation: AnyOperation, schemas: Schemas, problems: Json) -> Json:
    described: Json = {
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "parameters": _parameters(operation, schemas),
        "responses": answers_of(operation, schemas.of) | problems,
        "security": [] if operation.public else [{"bearer": []}, {"key": []}],
    }
    if operation.description:
        described["description"] = operation.description
    if operation.roles:
        described["x-roles"] = list(operation.roles)
    if (body := _body(operation, schemas)) is not None:
        described["requestBody"] = body
    return described


def _parameters(operation: AnyOperation, schemas: Schemas) -> list[Json]:
    parameters = [_path_parameter(name, operation) for name in operation.path_parameters]
    if operation.query is not None:
        fields, required = schemas.fields(operation.query)
        parameters += [_query_parameter(name, field, name in required) for name, field in fields.items()]
    if operation.method == "POST" and not operation.public:
        parameters.append(_IDEMPOTENCY_KEY)
    return parameters


def _path_parameter(name: str, operation: AnyOperation) -> Json:
    schema = {"type": "string", "minLength": 1, "pattern": NO_NUL}
    parameter: Json = {"name": name, "in": "path", "required": True, "schema": schema}
    about = operation.parameters.get(name)
    return parameter if about is None else parameter | {"description": about}


def _query_parameter(name: str, schema: Json, required: bool) -> Json:
    """Describe one parameter. An optional one is left out or empty, never null, so null is not in its schema."""
    schema = dict(schema)
    alternatives = [kind for kind in schema.pop("anyOf", ()) if kind != {"type": "null"}]
    if alternatives:
        schema |= alternatives[0] if len(alternatives) == 1 else {"anyOf": alternatives}
    if schema.get("default", ...) is None:
        del schema["default"]
    parameter: Json = {"name": name, "in": "query", "required": required, "schema": schema}
    if not required:
        parameter["allowEmptyValue"] = True
    about = schema.pop("description", None)
    return parameter if about is None else parameter | {"description": about}


def _body(operation: AnyOperation, schemas: Schemas) -> Json | None:
    shape = operation.body
    if shape is None:
        return None
    if isinstance(shape, RawBody):
        content = {media_type: {"schema": _raw(media_type)} for media_type in shape.media_types if media_type}
        return {"required": True, "content": content}
    content: Json = {"schema": schemas.of(shape)}
    if operation.example is not None:
        content["example"] = operation.example
    return {"required": bool(schemas.fields(shape)[1]), "content": {JSON: content}}


def _raw(media_type: str) -> Json:
    return {} if media_type == JSON else {"type": "string"}

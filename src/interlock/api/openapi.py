"""The OpenAPI 3.1 document, made from the operations themselves, so that it says what they do."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.api.codes import CODES, Codes
from interlock.api.decoding import IDEMPOTENCY_KEY_MAX, JSON
from interlock.api.openapi_answers import HEADERS, PROBLEM, AnyOperation, Json, answers_of, problems_of
from interlock.api.openapi_schemas import NO_NUL, Schemas
from interlock.api.operations import RawBody

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

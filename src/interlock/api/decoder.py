"""Decodes bytes into the types that an operation declares, and refuses the rest with place and reason."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, cast

import msgspec
from msgspec import inspect

from interlock.api.operations import Operation, RawBody
from interlock.api.problem import ProblemError, invalid, problem
from interlock.kernel.codec.canonical import canonical
from interlock.kernel.codec.shapes import shape_faults
from interlock.kernel.codec.strict import JsonFault, JsonRefused, JsonValue, parse, pointer
from interlock.wire.fields import SPELLED
from interlock.wire.http import NotDecodable, Request, percent_decoded

JSON = "application/json"
IDEMPOTENCY_KEY_MAX = 255
PARAMETERS_MAX = 50
# Up to here a body is read in a millisecond or two, which is less than it takes to have another process read it.
LARGE_BYTES = 8192

_VISIBLE_ASCII = re.compile(r"[\x21-\x7e]{1,255}")
_WHOLE = re.compile(r"-?[0-9]+")
_CHARSET = re.compile(r";\s*charset\s*=\s*\"?([^\";\s]*)", re.IGNORECASE)


class NoFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of an operation that takes none: nothing, or an empty object."""


def decode_body(operation: Operation[Any, Any, Any, Any], request: Request) -> tuple[JsonValue, Any]:
    """Return the body as it was sent and as the operation's type; no body counts as an empty object."""
    shape = operation.body
    if isinstance(shape, RawBody):
        _check_media_type(request, shape.media_types)
        return None, request.body
    if operation.method in ("GET", "DELETE"):
        if request.body:
            raise _takes_no_body(operation)
        return None, None
    document: JsonValue = {}
    if request.body:
        _check_media_type(request, (JSON,))
        document = _parsed(request.body)
    decoded = fit(document, NoFields if shape is None else shape)
    return document, (None if shape is None else decoded)


def is_large(operation: Operation[Any, Any, Any, Any], request: Request) -> bool:
    """Whether to read this body as JSON takes so long that others would notice; its media type is in order then."""
    if len(request.body) <= LARGE_BYTES or operation.method in ("GET", "DELETE"):
        return False
    if isinstance(operation.body, RawBody):
        return False
    _check_media_type(request, (JSON,))
    return True


def spell_body(body: bytes, shape: type[Any] | None) -> bytes:
    """The canonical text of a body that fits `shape`; else the problem that lists every fault found."""
    document = _parsed(body)
    fit(document, NoFields if shape is None else shape)
    return canonical(document)


def decode_spelled(operation: Operation[Any, Any, Any, Any], spelled: bytes) -> tuple[msgspec.Raw, Any]:
    """The body as its canonical text and as the operation's type, out of what `spell_body` returned."""
    shape = operation.body
    whole = msgspec.Raw(spelled)
    if shape is None or isinstance(shape, RawBody):
        return whole, None
    return whole, fit(_value(whole, _type_info(shape)), shape)


def _value(text: msgspec.Raw, kind: inspect.Type) -> Any:
    """What was sent, but for what is `Spelled`, which stays text."""
    start = bytes(memoryview(text)[:5])
    if start == b"null":
        return None
    if isinstance(kind, inspect.Metadata) and cast("Any", kind).extra == SPELLED:
        return text
    kinds = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    structs = [each for each in kinds if isinstance(each, inspect.StructType)]
    if len(structs) != 1 or not start.startswith(b"{"):
        return msgspec.json.decode(text)
    kind_of = {field.encode_name: field.type for field in structs[0].fields}
    fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    return {name: _value(each, kind_of.get(name, _ANY)) for name, each in fields.items()}


_ANY = inspect.AnyType()
_type_info = cache(inspect.type_info)


def check_unsent(operation: Operation[Any, Any, Any, Any], request: Request) -> None:
    """Refuse a body that is announced and not read."""
    if request.read is not None and (
        "transfer-encoding" in request.headers or request.headers.get("content-length", "0").strip("0")
    ):
        raise _takes_no_body(operation)


def _takes_no_body(operation: Operation[Any, Any, Any, Any]) -> ProblemError:
    return invalid(JsonFault("", f"{operation.method} takes no body; send parameters in the query"))


def decode_query(operation: Operation[Any, Any, Any, Any], raw: str) -> Any:
    """Return the query string as the operation's type; each parameter may appear once.

    A known parameter without a value is one that was left out: clients send `cursor=` for the first page.
    """
    if not raw and operation.query is None:
        return None
    shape = NoFields if operation.query is None else operation.query
    parameters = _parameters(raw)
    if "" in parameters.values():
        known = {field.encode_name for field in msgspec.structs.fields(shape)}
        parameters = {name: value for name, value in parameters.items() if value or name not in known}
    try:
        decoded = msgspec.convert(parameters, shape, strict=False)
    except msgspec.ValidationError as error:
        faults = shape_faults(str(error), parameters, shape)
        raise invalid(*(JsonFault(f"query{fault.path}", fault.reason) for fault in faults)) from None
    _check_digits(parameters, decoded)
    return None if operation.query is None else decoded


def decode_idempotency_key(request: Request) -> str | None:
    """Return the request's idempotency key, if it has one."""
    key = request.headers.get("idempotency-key")
    if key is not None and not _VISIBLE_ASCII.fullmatch(key):
        reason = f"must be 1 to {IDEMPOTENCY_KEY_MAX} visible ASCII characters, without spaces"
        raise invalid(JsonFault("header/idempotency-key", reason))
    return key


def fit(document: JsonValue, shape: type[Any]) -> Any:
    """Convert strictly parsed JSON to `shape`, or raise the problem that lists every fault found."""
    try:
        return msgspec.convert(document, shape)
    except msgspec.ValidationError as error:
        raise invalid(*shape_faults(str(error), document, shape)) from None


def _parsed(body: bytes) -> JsonValue:
    try:
        return parse(body)
    except JsonRefused as refused:
        raise invalid(*refused.faults) from None


def _check_media_type(request: Request, supported: tuple[str, ...]) -> None:
    """Refuse a body of another type. A body without one is taken for JSON, which then says whether it is."""
    coding = request.headers.get("content-encoding")
    if coding is not None and coding.lower() != "identity":
        raise _not_read(f"content encoding {coding[:100]!r} is not read here", supported)
    sent = request.headers.get("content-type", "")
    if sent in ("", JSON) and JSON in supported:
        return
    media_type = sent.partition(";")[0].strip().lower()
    accepted = media_type in supported or (JSON in supported and _is_json(media_type))
    charset = _CHARSET.search(sent)
    if accepted and (charset is None or charset[1].lower() in ("utf-8", "utf8")):
        return
    raise _not_read(
        f"content type {sent[:100]!r} is not read here" if sent else "the content type is missing", supported
    )


def _not_read(what: str, supported: tuple[str, ...]) -> ProblemError:
    named = [name for name in supported if name]
    detail = f"{what}; send {' or '.join(named)} in UTF-8, not compressed"
    return ProblemError(problem("unsupported_media_type", detail, members={"supported": named}))


def _is_json(media_type: str) -> bool:
    kind, _, subtype = media_type.partition("/")
    return kind == "application" and subtype.endswith("+json") and len(subtype) > len("+json")


def _check_digits(parameters: dict[str, str], decoded: Any) -> None:
    """A whole number is written in digits; msgspec takes 1e1 and 10.0 for ten as well."""
    wrong = [
        JsonFault("query" + pointer(name), "must be written in digits")
        for name, text in parameters.items()
        if type(getattr(decoded, name)) is int and not _WHOLE.fullmatch(text)
    ]
    if wrong:
        raise invalid(*wrong)


def _parameters(raw: str) -> dict[str, str]:
    pairs = [pair for pair in raw.split("&") if pair] if raw else []
    if len(pairs) > PARAMETERS_MAX:
        raise invalid(JsonFault("query", f"has more than {PARAMETERS_MAX} parameters"))
    parameters: dict[str, str] = {}
    for pair in pairs:
        name, value = _parameter(pair)
        if name in parameters:
            raise invalid(JsonFault("query" + pointer(name), "appears twice; send it once"))
        parameters[name] = value
    return parameters


def _parameter(pair: str) -> tuple[str, str]:
    name, _, value = pair.replace("+", " ").partition("=")
    try:
        return percent_decoded(name), percent_decoded(value)
    except NotDecodable as error:
        raise invalid(JsonFault("query", str(error))) from None

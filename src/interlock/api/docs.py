"""The `/docs` page: one self-contained page made from the OpenAPI document, without scripts.

Everything on it comes from the document, so the page says the same as `/openapi.json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from typing import Any, TypeAlias

from interlock.api.openapi import NO_NUL
from interlock.kernel.codec.strict import INTEGER_MAX
from interlock.wire.codes import CodeInfo

Json: TypeAlias = dict[str, Any]

_CODE = re.compile(r"`([^`]+)`")
_CONSTRAINTS = {
    "minimum": "≥ {}",
    "maximum": "≤ {}",
    "minLength": "length ≥ {}",
    "maxLength": "length ≤ {}",
    "maxItems": "at most {} items",
    "maxProperties": "at most {} entries",
    "pattern": "matches <code>{}</code>",
    "format": "{}",
}


def documentation_page(document: Json) -> str:
    """Write the whole API as one HTML page."""
    info = document["info"]
    tagged = {tag["name"]: list(_operations(document, tag["name"])) for tag in document["tags"]}
    sections = "".join(
        f'<section id="{_anchor(tag)}"><h2>{escape(tag)}</h2>'
        + "".join(_operation(document, *operation) for operation in operations)
        + "</section>"
        for tag, operations in tagged.items()
    )
    shapes = "".join(_shape(name, schema) for name, schema in document["components"]["schemas"].items())
    return _page(
        f"{info['title']} API",
        _navigation(info, tagged),
        f"<header><h1>{escape(info['title'])} API</h1><p class=lead>{_prose(info['description'])}</p>"
        f'<p class=links>Version {escape(info["version"])} · <a href="/openapi.json">openapi.json</a> · '
        f'<a href="/problems">problem codes</a></p></header>{sections}'
        f"<section id=schemas><h2>Schemas</h2>{shapes}</section>",
    )


def problems_page(infos: Iterable[CodeInfo]) -> str:
    """Write what each problem code means and what to do about it."""
    ordered = sorted(infos, key=lambda info: (info.status, info.code))
    links = '<a href="/docs">The API</a><a href="/problems">All problem codes</a>'
    return _page(
        "Problem codes",
        f"<nav><p class=brand>Interlock</p>{links}</nav>",
        f"<header><h1>Problem codes</h1></header><section>{''.join(map(_problem_card, ordered))}</section>",
    )


def _problem_card(info: CodeInfo) -> str:
    retryable = " <span class=tag>retryable</span>" if info.retryable else ""
    return (
        f'<article class=card id="{info.code}">'
        f"<h3>{_status(str(info.status))} <code>{info.code}</code> {escape(info.title)}{retryable}</h3>"
        f"<p>{_prose(info.meaning)}</p><p><b>Next:</b> {_prose(info.next_step)}</p></article>"
    )


def _page(title: str, navigation: str, main: str) -> str:
    style = Path(__file__).with_name("docs.css").read_text()
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width"><meta name=color-scheme content="light dark">'
        f"<title>{escape(title)}</title><style>{style}</style></head>"
        f"<body>{navigation}<main>{main}</main></body></html>"
    )


def _operations(document: Json, tag: str) -> Iterator[tuple[str, str, Json]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if tag in operation["tags"]:
                yield path, method, operation


def _navigation(info: Json, tagged: dict[str, list[tuple[str, str, Json]]]) -> str:
    groups = "".join(
        f'<p class=group><a href="#{_anchor(tag)}">{escape(tag)}</a></p>'
        + "".join(
            f'<a href="#{operation["operationId"]}">{_badge(method)}{escape(operation["summary"])}</a>'
            for _, method, operation in operations
        )
        for tag, operations in tagged.items()
    )
    schemas = '<p class=group><a href="#schemas">Schemas</a></p>'
    return f"<nav><p class=brand>{escape(info['title'])}</p>{groups}{schemas}</nav>"


def _operation(document: Json, path: str, method: str, operation: Json) -> str:
    parts = (
        f"<p>{_prose(operation['description'])}</p>" if "description" in operation else "",
        _access(operation),
        _fields("Parameters", _parameter_rows(operation["parameters"])),
        _body(document, operation),
        _responses(document, operation),
    )
    return (
        f'<article class=card id="{operation["operationId"]}"><h3>{escape(operation["summary"])} '
        f'<a class=anchor href="#{operation["operationId"]}">#</a></h3>'
        f"<p class=route>{_badge(method)}<code>{_path(path)}</code></p>"
        f"<div class=halves><div>{''.join(parts)}</div>"
        f"<div>{_example(path, method, operation)}</div></div></article>"
    )


def _access(operation: Json) -> str:
    if not operation["security"]:
        return '<p class=access><span class="tag open">public</span> <small>no key needed</small></p>'
    roles = operation.get("x-roles", ())
    told = "any one of these roles" if len(roles) > 1 else "role" if roles else "any key"
    tags = " ".join(f"<span class=tag>{escape(role)}</span>" for role in roles)
    return f"<p class=access>{tags} <small>{told}</small></p>"


def _parameter_rows(parameters: Iterable[Json]) -> Iterator[tuple[str, Json, bool]]:
    for parameter in parameters:
        schema = parameter["schema"] | {"description": parameter.get("description", "")}
        yield parameter["name"], schema | {"x-in": parameter["in"]}, parameter.get("required", False)


def _fields(title: str, rows: Iterable[tuple[str, Json, bool]]) -> str:
    written = "".join(
        f"<tr><td><code>{escape(name)}</code>{'<b class=required title=required>*</b>' if required else ''}"
        f"{'<small>' + schema['x-in'] + '</small>' if 'x-in' in schema else ''}</td>"
        f"<td>{_type(schema)}{_remarks(schema)}</td></tr>"
        for name, schema, required in rows
    )
    return f"<h4>{escape(title)}</h4><table>{written}</table>" if written else ""


def _object_rows(schema: Json) -> Iterator[tuple[str, Json, bool]]:
    for name, field in schema.get("properties", {}).items():
        yield name, field, name in schema.get("required", ())


def _body(document: Json, operation: Json) -> str:
    if "requestBody" not in operation:
        return ""
    content = operation["requestBody"]["content"]
    schema = content.get("application/json", {}).get("schema", {})
    if "$ref" not in schema:
        return f"<h4>Body</h4><p>{' or '.join(f'<code>{escape(kind)}</code>' for kind in content)}</p>"
    return _fields("Body", _object_rows(_resolved(document, schema)))


def _resolved(document: Json, reference: Json) -> Json:
    found: Any = document
    for step in reference["$ref"].removeprefix("#/").split("/"):
        found = found[step]
    return found


def _responses(document: Json, operation: Json) -> str:
    rows, problems = "", ""
    for status, response in operation["responses"].items():
        if "$ref" not in response:
            rows += f"<tr><td>{_status(status)}</td><td>{_answer(response)}</td></tr>"
        elif status != "default":
            media = _resolved(document, response)["content"]["application/problem+json"]
            codes = media["schema"]["allOf"][1]["properties"]["code"]["enum"]
            links = " ".join(f'<a href="/problems/{code}"><code>{code}</code></a>' for code in codes)
            problems += f"<span>{_status(status)} {links}</span> "
    answers = f"<h4>Answers</h4><table class=answers>{rows}</table>"
    return f"{answers}<h4>Problems</h4><p class=problems>{problems}</p>"


def _answer(response: Json) -> str:
    kinds = [
        f"{_type(media['schema'])} <small>{escape(media_type)}</small>"
        for media_type, media in response.get("content", {}).items()
    ]
    return " or ".join(kinds) or escape(response["description"])


def _status(status: str) -> str:
    return f'<span class="status s{status[0]}">{status}</span>'


def _shape(name: str, schema: Json) -> str:
    rows = _fields("Fields", _object_rows(schema)).replace("<h4>Fields</h4>", "")
    values = "" if rows else f"<p>{_type(schema)}{_remarks(schema | {'description': ''})}</p>"
    about = f"<p>{_prose(schema['description'])}</p>" if schema.get("description") else ""
    title = escape(str(schema.get("title", name)))
    return f'<article class=card id="schema-{escape(name)}"><h3>{title}</h3>{about}{values}{rows}</article>'


def _type(schema: Json) -> str:
    """Name a schema in a few words, with links to those that have a name."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#schema-{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(_type(kind) for kind in schema["anyOf"])
    if "enum" in schema:
        return " ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"])
    if "const" in schema:
        return f"<code>{escape(str(schema['const']))}</code>"
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map of {_type(schema['additionalProperties'])}"
    return f"<i>{escape(str(schema.get('type', 'any JSON')))}</i>"


def _remarks(schema: Json) -> str:
    """List a field's limits and default, then say what it is."""
    alternatives: list[Json] = schema.get("anyOf", [schema])
    told = [kind["description"] for kind in (schema, *alternatives) if kind.get("description")]
    limits = [
        template.format(escape(str(kind[name])))
        for kind in alternatives
        for name, template in _CONSTRAINTS.items()
        if name in kind and not _is_noise(name, kind, told)
    ]
    if schema.get("default") is not None:
        limits.append(f"default <code>{escape(json.dumps(schema['default']))}</code>")
    listed = f" <small>{', '.join(limits)}</small>" if limits else ""
    return listed + (f"<p>{_prose(told[0])}</p>" if told else "")


def _is_noise(name: str, kind: Json, told: list[str]) -> bool:
    """Tell which limits a reader can do without: those of all JSON, and patterns that words explain."""
    if name == "pattern":
        return bool(told) or kind[name] == NO_NUL
    return abs(kind[name]) == INTEGER_MAX if name in ("minimum", "maximum") else False


def _example(path: str, method: str, operation: Json) -> str:
    lines = [f"curl{'' if method == 'get' else ' -X ' + method.upper()} $INTERLOCK_URL{path}"]
    if operation["security"]:
        lines.append('-H "Authorization: Bearer $INTERLOCK_KEY"')
    content: Json = operation.get("requestBody", {}).get("content", {})
    for media_type, media in list(content.items())[:1]:
        lines.append(f"-H 'Content-Type: {media_type}'")
        example = media.get("example")
        lines.append("--data-binary @FILE" if example is None else f"-d '{json.dumps(example, indent=2)}'")
    return "<pre tabindex=0>" + escape(" \\\n  ".join(lines)) + "</pre>"


def _badge(method: str) -> str:
    return f'<span class="method {method}">{method.upper()}</span>'


def _path(path: str) -> str:
    return re.sub(r"\{([^}]+)\}", r"<var>{\1}</var>", escape(path))


def _prose(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(text, quote=False))


def _anchor(tag: str) -> str:
    return "tag-" + re.sub(r"[^a-z0-9]+", "-", tag.lower())

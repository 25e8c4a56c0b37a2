"""Writes docs/api/, the HTTP API with a page for each room, from the description that a server gives of itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from interlock.api.assembly import OPERATIONS
from interlock.api.descriptions import describing
from interlock.api.openapi import openapi
from interlock.wire.codes import CODES

FOLDER = Path(__file__).parents[1] / "docs" / "api"
Json: TypeAlias = dict[str, Any]

WRITTEN = "<!-- written by `make docs` from the types that serve the API; edit those -->\n"
PREFACE = """# HTTP API

A running server shows the same at `/docs`, and for machines at `/openapi.json`. Every route is under `/api/v1`.

- **Authenticate** with `Authorization: Bearer <API key>` or `X-API-Key: <API key>`.
- **Repeat safely**: every POST takes an `Idempotency-Key`. A repeat gets the first answer again, byte for byte, with
  `Idempotency-Replayed: true`. An answer that changed nothing is not remembered.
- **Page**: lists take `limit` and `cursor`, and answer `{"items": […], "next_cursor": …}`, newest first, or by name
  where things have one. A page may be shorter than `limit`: go on until `next_cursor` is null.
- **Read refusals by their code**: a refusal is `application/problem+json` with a `code` from the [table of
  codes](codes.md). What any call may meet (`invalid_request`, `unauthenticated`, `forbidden`, `not_found`, `too_large`,
  `store_unavailable`, …) is not repeated on the pages.
- **Retry** only what the [retry contract](../retries.md) says.

[Shapes](shapes.md) has the types that several rooms share.

"""

_EVERYWHERE = frozenset(
    {
        "invalid_request", "unauthenticated", "forbidden", "not_found", "too_large", "unsupported_media_type",
        "idempotency_key_reused", "internal_error", "store_unavailable", "overloaded", "outcome_unknown",
    }
)  # fmt: skip
SHARED = "shapes.md"
_PAGE = re.compile(r"Page_(\w+)_")
_PAGING = frozenset({"limit", "cursor", "Idempotency-Key"})
_LIMITS = {
    "minimum": "≥ {}",
    "exclusiveMinimum": "> {}",
    "maximum": "≤ {}",
    "minLength": "length ≥ {}",
    "maxLength": "length ≤ {}",
    "maxItems": "at most {}",
    "maxProperties": "at most {}",
}


def main() -> None:
    """Write the pages, and remove those of rooms that are gone."""
    pages = render()
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.md"):
        if path.name not in pages:
            path.unlink()
    for name, text in pages.items():
        (FOLDER / name).write_text(text)
    print(f"wrote {len(pages)} pages of {FOLDER.name}/")


def render() -> dict[str, str]:
    """Every page by its file name."""
    document = described()
    tags = [tag["name"] for tag in document["tags"]]
    homes = homes_of(document)
    pages = {"README.md": WRITTEN + PREFACE + _contents(document, tags)}
    for tag in tags:
        name = _file(tag)
        parts = [
            f"{WRITTEN}# {tag} over HTTP\n",
            *(_operation(document, *each) for each in _operations(document, tag)),
        ]
        own = [shape for shape, home in homes.items() if home == name]
        parts += ["## Shapes\n", *_shapes(document["components"]["schemas"], own)] if own else []
        pages[name] = _linked("\n".join(parts), homes, name)
    shared = [shape for shape, home in homes.items() if home == SHARED]
    shapes = _shapes(document["components"]["schemas"], shared, "##")
    opening = f"{WRITTEN}# Shapes\n\nTypes that several rooms share.\n"
    pages[SHARED] = _linked("\n".join([opening, *shapes]), homes, SHARED)
    pages["codes.md"] = WRITTEN + _codes()
    return pages


def described() -> Json:
    """The description that a server gives of itself."""
    return openapi((*OPERATIONS, *describing(OPERATIONS)), title="Interlock", version="")


def _file(tag: str) -> str:
    return f"{_slug(tag)}.md"


def _slug(heading: str) -> str:
    """How a heading is spelled in an address."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def homes_of(document: Json) -> dict[str, str]:
    """The page of every shape: that of the one room that uses it, or the page of shared ones."""
    users = dict[str, set[str]]()
    for tag in (tag["name"] for tag in document["tags"]):
        waiting = [_names_in([each for _, each in _operations(document, tag)])]
        while waiting:
            for name in waiting.pop():
                if tag not in users.setdefault(name, set()):
                    users[name].add(tag)
                    waiting.append(_names_in(document["components"]["schemas"].get(name, {})))
    return {
        name: _file(min(using)) if len(using := users.get(name, set())) == 1 else SHARED
        for name in document["components"]["schemas"]
        if not _PAGE.fullmatch(name)
    }


def _names_in(part: Any) -> set[str]:
    return set(re.findall(r"#/components/schemas/(\w+)", json.dumps(part)))


def _linked(text: str, homes: dict[str, str], page: str) -> str:
    """Lead links to shapes to the page where each one is."""
    places = {name.lower(): home for name, home in homes.items()}
    return re.sub(
        r"\]\(#shape-(\w+)\)",
        lambda found: f"]({'' if places[found[1]] == page else places[found[1]]}#{found[1]})",
        text,
    )


def _contents(document: Json, tags: Iterable[str]) -> str:
    lines = list[str]()
    for tag in tags:
        lines += [f"## {tag}", "", "| | route |", "|---|---|"]
        for routes, operation in _operations(document, tag):
            place = f"{_file(tag)}#{_slug(operation['summary'])}"
            lines.append(f"| [{operation['summary']}]({place}) | {'<br>'.join(routes)} |")
        lines.append("")
    return "\n".join(lines)


def _operations(document: Json, tag: str) -> list[tuple[list[str], Json]]:
    """The operations of a room, each with its routes; one that has two routes is listed once."""
    found = dict[str, tuple[list[str], Json]]()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if tag in operation["tags"]:
                routes, _ = found.setdefault(operation["summary"], ([], operation))
                routes.append(f"`{method.upper()} {path}`")
    return list(found.values())


def _operation(document: Json, routes: list[str], operation: Json) -> str:
    described = operation.get("description", "")
    lines = [
        f"## {operation['summary']}",
        "",
        " or ".join(routes),
        "",
        *([described, ""] if described else []),
        f"{_who(operation)} Operation `{operation['operationId']}`.",
        "",
        *_parameters(operation.get("parameters", ())),
        *_body(operation.get("requestBody")),
        _answers(document, operation),
        "",
    ]
    return "\n".join(lines)


def _who(operation: Json) -> str:
    if not operation.get("security"):
        return "Public."
    roles = operation.get("x-roles")
    return f"Roles: any of {', '.join(f'`{role}`' for role in roles)}." if roles else "Any API key."


def _parameters(parameters: Iterable[Json]) -> Iterator[str]:
    own = [each for each in parameters if each["name"] not in _PAGING and each["in"] == "query"]
    if own:
        yield from ("| query | type | |", "|---|---|---|")
        for each in own:
            yield f"| `{each['name']}` | {_typed(each['schema'])} | {_cell(each.get('description', ''))} |"
        yield ""


def _body(body: Json | None) -> Iterator[str]:
    if body is not None:
        spelled = [
            f"{_typed(content['schema'])} ({media})"
            if media != "application/json"
            else _typed(content["schema"])
            for media, content in body["content"].items()
        ]
        yield from (f"Body: {' or '.join(spelled)}.", "")


def _answers(document: Json, operation: Json) -> str:
    good, codes = list[str](), list[str]()
    for status, told in operation["responses"].items():
        answer = _at(document, told["$ref"]) if "$ref" in told else told
        problems = [code for code in _codes_of(answer, document) if code not in _EVERYWHERE]
        codes += [f"`{code}` ({status})" for code in problems]
        if status.isdigit() and int(status) < 400:
            shapes = [_shape(document, each.get("schema", {})) for each in answer.get("content", {}).values()]
            good.append(f"{status} {' or '.join(shapes)}".strip())
    refusals = f" Refusals: {', '.join(codes)}." if codes else ""
    return f"Answers: {'; '.join(good)}.{refusals}"


def _shape(document: Json, schema: Json) -> str:
    reference: str = schema.get("$ref", "")
    if _PAGE.fullmatch(reference.rpartition("/")[2]) is None:
        return _typed(schema)
    return f"page of {_typed(_at(document, reference)['properties']['items']['items'])}"


def _codes_of(answer: Json, document: Json) -> list[str]:
    content = answer.get("content", {}).get("application/problem+json", {})
    return [code for code in CODES if re.search(rf'"{code}"', json.dumps(_resolved(content, document)))]


def _resolved(content: Json, document: Json) -> Any:
    schema = content.get("schema", {})
    reference = schema.get("$ref")
    return _at(document, reference) if reference and not reference.endswith("/Problem") else schema


def _shapes(schemas: Json, names: Iterable[str], mark: str = "###") -> Iterator[str]:
    for name in names:
        schema = schemas[name]
        lines = [f"{mark} {name}", ""]
        if schema.get("description"):
            lines += [schema["description"], ""]
        lines += _fields(schema) if schema.get("properties") else [_typed(schema)]
        yield "\n".join([*lines, ""])


def _fields(schema: Json) -> list[str]:
    required = set(schema.get("required", ()))
    lines = ["| field | type | |", "|---|---|---|"]
    for name, each in schema["properties"].items():
        note = "" if name in required else _default(each)
        lines.append(
            f"| `{name}` | {_typed(each)} | {_cell(' '.join((note, each.get('description', ''))).strip())} |"
        )
    return lines


def _default(schema: Json) -> str:
    value = schema.get("default")
    return (
        f"default `{json.dumps(value, ensure_ascii=False)}`"
        if value not in (None, "", [], {})
        else "optional"
    )


def _typed(schema: Json) -> str:
    """A type in words, with its limits; safe inside a table."""
    if "$ref" in schema:
        name: str = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#shape-{name.lower()})"
    if "anyOf" in schema or "oneOf" in schema:
        choices: list[Json] = schema.get("anyOf") or schema["oneOf"]
        return " or ".join(dict.fromkeys(map(_typed, choices)))
    if "const" in schema or "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    kind = schema.get("type")
    limits = ", ".join(word.format(schema[name]) for name, word in _LIMITS.items() if name in schema)
    return _base(schema, kind) + (f" ({limits})" if limits else "")


def _base(schema: Json, kind: Any) -> str:
    if kind == "array":
        return f"list of {_typed(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"map to {_typed(schema['additionalProperties'])}"
    if isinstance(kind, list):
        return " or ".join(map(str, kind))
    return str(schema.get("format") or kind or "any JSON")


def _codes() -> str:
    lines = [
        "# Codes",
        "",
        "Every refusal has one of these codes. Read the code, not the sentence: sentences may get better.",
        "",
        "Where one operation is the next step, the problem names it in `next`: its id, its route and the arguments",
        "that are known; `needs` lists the fields that only the caller can fill in. The SDK words it as a call",
        "(`error.next`, and at the end of `str(error)`), the command line as a command.",
        "",
        "```json",
        '{"code": "snapshot_changed", "detail": "the policy changed since job_… was submitted; refresh it, and …",',
        ' "next": {"operation": "refresh_approval", "method": "POST", "path": "/api/v1/approvals/job_…/refresh",',
        '          "arguments": {"job_id": "job_…"}}}',
        "```",
        "",
        "| code | status | retry | what it means | what to do |",
        "|---|---|---|---|---|",
    ]
    for info in CODES.values():
        retry = "yes" if info.retryable else "no"
        cells = (f"`{info.code}`", str(info.status), retry, _cell(info.meaning), _cell(info.next_step))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _at(document: Json, reference: str) -> Json:
    found: Any = document
    for step in reference.removeprefix("#/").split("/"):
        found = found[step]
    return found


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    main()

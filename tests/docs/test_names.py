"""What a page names exists: methods of the SDK, commands with their options, and routes of the API."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

import interlock
from interlock import AsyncInterlock, Interlock
from interlock.cli.exits import Failed
from interlock.cli.main import find, parser_of
from interlock.cli.options import GLOBAL_OPTIONS
from interlock.sdk.outcomes import outcome_of
from interlock.wire.codes import CODES
from interlock.wire.problem import Problem
from tools.reference import described

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_METHOD = re.compile(r"\b(?:il|client)\.(?!py\b|md\b)([a-z]\w*)")
_ROUTE = re.compile(r"\b(GET|POST|PUT|DELETE) (?:/api/v1)?(/[\w/{}\-.%…]+)")
_BLOCK = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_AFTER = re.compile(r"\s(?:\||&&|\|\||;|<|>|2>|\))(?:\s|$)")
PATHS = described()["paths"]
# What a page writes for what the reader fills in, and something of that kind.
_FILLED_IN = {"N": "1", "JSON": "{}"}
# What a command says that is named without all that it needs.
_INCOMPLETE = re.compile(
    r"^missing: |^one of the arguments .* is required|expected (?:one|at least one) argument"
)


def methods_in(text: str) -> list[str]:
    return [
        name
        for name in _METHOD.findall(text)
        if not hasattr(Interlock, name) and not hasattr(AsyncInterlock, name)
    ]


def routes_in(text: str) -> list[str]:
    """The routes in a text that no server has; an id may be filled in."""
    return [
        f"{method} {path}"
        for method, path in _ROUTE.findall(text)
        if not _is_route(method, path.rstrip("/."))
    ]


def _is_route(method: str, path: str) -> bool:
    patterns = (
        re.sub(r"\{[^}]*\}", "[^/]+", each.removeprefix("/api/v1"))
        for each, methods in PATHS.items()
        if method.lower() in methods
    )
    return any(re.fullmatch(pattern, path) for pattern in patterns)


def commands_in(text: str) -> Iterator[tuple[str, bool]]:
    """The commands that a page shows as lines of a block, which are whole, and those that it only names."""
    for block in _BLOCK.findall(text):
        for line in re.sub(r"\\\n\s*", "", block).splitlines():
            shown = line.strip().removeprefix("$ ")
            if re.match(r"(?:[A-Z_]+=\S+ )*interlock [a-z]", shown):
                yield re.sub(r"^(?:[A-Z_]+=\S+ )*interlock ", "", shown), True
    for code in _CODE.findall(_BLOCK.sub("", text)):
        named = " ".join(code.split())
        if re.match(r"interlock [a-z]", named):
            yield named.removeprefix("interlock "), False


def fault_of(command: str, *, is_whole: bool) -> str:
    """What is wrong with a command; empty if nothing is."""
    words = _words(command)
    while words and words[0] in GLOBAL_OPTIONS:
        words = words[2:]
    entry = find(words[0]) if words else None
    if entry is None:
        return f"there is no command {command!r}"
    try:
        parser_of(entry).parse_args(words[1:])
    except Failed as failed:
        is_fine = not is_whole and _INCOMPLETE.search(str(failed))
        return "" if is_fine else f"{command!r}: {failed}"
    except SystemExit:  # --help
        return ""
    return ""


def _words(command: str) -> list[str]:
    """The words of the command alone, without what a shell or a reader does with it."""
    alone = (
        _AFTER.split(re.sub(r"\$\(.*\)", "1", command))[0]
        .replace("'…'", "1")
        .replace("[", "")
        .replace("]", "")
        .replace("…", "x")
    )
    try:
        words = shlex.split(alone, comments=True)
    except ValueError:  # a quotation goes on in the next line
        words = alone.split()
    return [_FILLED_IN.get(first := word.partition("|")[0], first) for word in words]


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_what_a_page_names_exists(page: Path) -> None:
    text = page.read_text()
    assert methods_in(text) == []
    assert routes_in(text) == []
    assert [
        fault for command, is_whole in commands_in(text) if (fault := fault_of(command, is_whole=is_whole))
    ] == []


@pytest.mark.parametrize(
    "text",
    [
        "```\ninterlock lease checkpoints lse_1\n```",
        "```console\n$ interlock submit a.b --no-such-option 1\n```",
        "```\ninterlock resolve x\n```",
        "see `interlock webhooks add`",
        "run `interlock doctor --fix`",
    ],
)
def test_a_command_that_is_gone_is_found(text: str) -> None:
    assert [
        fault for command, is_whole in commands_in(text) if (fault := fault_of(command, is_whole=is_whole))
    ]


def test_a_method_that_is_gone_is_found() -> None:
    assert methods_in("`il.job(x)` and `il.get_job(x)`") == ["job"]


def test_a_route_that_is_gone_is_found() -> None:
    told = "`POST /api/v1/approvals/job_…/approve`, `GET /jobs?q=`, `POST /jobs/{id}/approve`, `PATCH /x`"
    assert routes_in(told) == ["POST /jobs/{id}/approve"]


_CODE_SHOWN = re.compile(r"\b(4\d\d|503) `([a-z_]+)`(?:[^|`]*\(`([A-Z]\w+)`\))?")


def test_a_code_is_shown_with_its_status_and_with_the_exception_that_the_sdk_raises() -> None:
    text = "\n".join(page.read_text() for page in PAGES)
    shown = set(_CODE_SHOWN.findall(text))
    assert len(shown) > 30
    for status, code, exception in shown:
        assert code in CODES, code
        assert int(status) == CODES[code].status, code
        raised = outcome_of(Problem(title="", status=int(status), code=code))
        assert exception not in interlock.__all__ or exception == type(raised).__name__, (code, exception)

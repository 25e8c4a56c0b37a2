"""Writes docs/sdk/, the reference of the Python SDK, from its signatures and docstrings."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

import interlock
from interlock import AsyncInterlock, Interlock
from tools import reference

FOLDER = Path(__file__).parents[1] / "docs" / "sdk"
WRITTEN = "<!-- written by `make docs` from the docstrings of the SDK; edit those -->\n"
PREFACE = """# Python SDK

```python
from interlock import Interlock

il = Interlock()  # embedded; or Interlock("https://…", key=…)
```

`Interlock` blocks, and threads may share one. `AsyncInterlock` has the same methods for `async` programs: await them,
and use `async with` where a page says `with`. Every outcome that is not the one you asked for is an
[exception](exceptions.md) of its own. Calls are tried again as the [retry contract](../retries.md) says.

"""
# Pages of their own for what is exported beside the client, by the module it comes from.
GROUPS = {
    "exceptions": ("Exceptions", "interlock.sdk.outcomes", "interlock.sdk.arguments"),
    "workers": ("Workers", "interlock.sdk.worker", "interlock.sdk.worker_jobs"),
    "values": (
        "Values",
        "interlock.sdk.once",
        "interlock.sdk.gated_call",
        "interlock.sdk.retry",
        "interlock",
    ),
}
CORE = "client"
# Modules whose methods open the reference: what a program needs first.
_FIRST = frozenset({"base", "hold", "methods", "once", "client"})
_LINE = 100


def main() -> None:
    """Write the pages, and remove those of modules that are gone."""
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
    shapes = reference.homes_of(reference.described())
    rooms = _rooms()
    pages = {
        f"{room}.md": "\n".join([f"{WRITTEN}# {_title(room)}\n", *(_method(*each, shapes) for each in found)])
        for room, found in rooms.items()
    }
    title = f"# {_title(CORE)}\n"
    made = f"{title}\n```python\n{_call('Interlock', Interlock)}\n```\n\n{_prose(Interlock.__init__)}\n"
    pages[f"{CORE}.md"] = pages[f"{CORE}.md"].replace(title, made, 1)
    for name, (title, *modules) in GROUPS.items():
        pages[f"{name}.md"] = "\n".join([f"{WRITTEN}# {title}\n", *_exported(modules)])
    pages["README.md"] = WRITTEN + PREFACE + "\n".join(_contents(rooms))
    return {name: _formatted(text) for name, text in pages.items()}


def _formatted(page: str) -> str:
    """The page with its Python as `make lint` wants it; a signature, which is no statement, stays as it is."""
    ruff = [
        sys.executable,
        "-m",
        "ruff",
        "format",
        "--quiet",
        "--stdin-filename",
        str(FOLDER / "page.md"),
        "-",
    ]
    return subprocess.run(ruff, input=page, capture_output=True, text=True, check=True).stdout


def methods() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public methods of the client, the ones that every program needs first."""
    for owner in (*Interlock.__mro__[1:-1], Interlock):
        for name, found in vars(owner).items():
            if not name.startswith("_") and callable(found):
                yield name, getattr(Interlock, name)


def _rooms() -> dict[str, list[tuple[str, Callable[..., Any]]]]:
    """The methods by page: first what a program needs first, then one page for each file of operations."""
    rooms: dict[str, list[tuple[str, Callable[..., Any]]]] = {CORE: []}
    for name, method in dict(methods()).items():
        module = method.__module__.rpartition(".")[2]
        rooms.setdefault(CORE if module in _FIRST else module, []).append((name, method))
    return rooms


def _title(room: str) -> str:
    if room == CORE:
        return "The client"
    module = sys.modules[f"interlock.sdk.operations.{room}"]
    return (module.__doc__ or room).partition("\n")[0].rstrip(".").partition(":")[0]


def _contents(rooms: dict[str, list[tuple[str, Callable[..., Any]]]]) -> Iterator[str]:
    for room, found in rooms.items():
        yield from (f"## [{_title(room)}]({room}.md)", "", "| | |", "|---|---|")
        for name, method in found:
            yield f"| [`il.{name}`]({room}.md#{name}) | {_cell(_first_sentence(method))} |"
        yield ""
    yield "## Beside the client"
    yield ""
    for name, (title, *modules) in GROUPS.items():
        yield f"- [{title}]({name}.md): {', '.join(f'`{each}`' for each in _names(modules))}"
    yield ""


def _method(name: str, method: Callable[..., Any], shapes: dict[str, str]) -> str:
    lines = [f"## {name}", "", "```python", _call(f"il.{name}", method), "```", "", _prose(method), ""]
    linked = [word for word in _returned(method) if word in shapes]
    if linked:
        places = (f"[`{word}`](../api/{shapes[word]}#{word.lower()})" for word in linked)
        lines += [f"Fields: {', '.join(places)}.", ""]
    if not hasattr(AsyncInterlock, name):
        lines += ["`AsyncInterlock` does not have it.", ""]
    return "\n".join(lines)


def _exported(modules: list[str]) -> Iterator[str]:
    for name in _names(modules):
        found = getattr(interlock, name)
        lines = [f"## {name}", ""]
        if not (inspect.isclass(found) and issubclass(found, BaseException)):
            lines += ["```python", _declared(name, found), "```", ""]
        if inspect.isclass(found) and issubclass(found, BaseException):
            bases = ", ".join(f"`{base.__name__}`" for base in found.__bases__ if base is not object)
            lines += [f"Is: {bases}.", ""]
        members = [_member(*each) for each in _members(found)]
        lines += [_prose(found), "", *members, *([""] if members else [])]
        yield "\n".join(lines)


def _members(found: object) -> Iterator[tuple[str, object]]:
    """The documented public methods and properties that a class declares itself."""
    for name, member in vars(found).items() if inspect.isclass(found) else ():
        is_shown = isinstance(member, property) or inspect.isfunction(member)
        if is_shown and not name.startswith("_") and inspect.getdoc(member):
            yield name, member


def _member(name: str, member: Any) -> str:
    called = "" if isinstance(member, property) else _signature(member)
    return f"- `{name}{called}`: {_one_line(member)}"


def _names(modules: list[str]) -> list[str]:
    """What `interlock` exports from these modules; `interlock` itself stands for what no other group has."""
    grouped = {module for _, *own in GROUPS.values() for module in own}
    return [
        name
        for name in interlock.__all__
        if name not in {"Interlock", "AsyncInterlock"}
        and ((home := _home(name)) in modules or ("interlock" in modules and home not in grouped))
    ]


def _home(name: str) -> str:
    return getattr(interlock, "_HOME")[name]  # noqa: B009 - a private table of ours, read and not changed


def _declared(name: str, found: Any) -> str:
    """A class or function as it is called; a record by its fields; a constant by its value."""
    if inspect.isclass(found) and issubclass(found, msgspec.Struct):
        fields = (f"    {each}: {_annotation(found, each)}" for each in found.__struct_fields__)
        return "\n".join([f"class {name}:", *fields])
    return _call(name, found) if callable(found) else f"{name} = {found!r}"


def _annotation(owner: type, field: str) -> str:
    return next(
        _plain(str(base.__annotations__[field])) for base in owner.__mro__ if field in base.__annotations__
    )


def _call(name: str, found: Callable[..., Any]) -> str:
    """A call with its parameters, on one line or one line each."""
    short = f"{name}{_signature(found)}"
    if len(short) <= _LINE:
        return short
    signature = inspect.signature(found)
    parts, starred = list[str](), False
    for each in signature.parameters.values():
        if each.name == "self":
            continue
        if each.kind is each.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        starred = starred or each.kind is each.VAR_POSITIONAL
        parts.append(_plain(str(each)))
    return f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){_arrow(found)}"


def _signature(found: Callable[..., Any]) -> str:
    signature = inspect.signature(found)
    kept = [each for each in signature.parameters.values() if each.name != "self"]
    parameters = signature.replace(parameters=kept, return_annotation=inspect.Signature.empty)
    return _plain(str(parameters)) + _arrow(found)


def _arrow(found: Callable[..., Any]) -> str:
    """What it returns; to make a value of a class returns that."""
    returned = inspect.signature(found).return_annotation
    if inspect.isclass(found) or returned is inspect.Signature.empty:
        return ""
    return f" -> {_plain(str(returned))}"


def _plain(text: str) -> str:
    """A signature as it is written in code: no quotes around annotations, no addresses."""
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)
    text = re.sub(r'(: |-> )"([^"]*)"', r"\1\2", text)
    text = re.sub(r"<(?:function|class) '?([\w.]+)'?[^>]*>", lambda found: found[1].rpartition(".")[2], text)
    text = re.sub(r"\b(?:Given|Sometimes)\[(.*)\]$", r"\1", text)
    return text.replace("= UNSET", "= ...")


def _returned(method: Callable[..., Any]) -> list[str]:
    return re.findall(r"\w+", str(inspect.signature(method).return_annotation))


def _prose(found: object) -> str:
    return (inspect.getdoc(found) or "").strip()


def _one_line(found: object) -> str:
    return " ".join(_prose(found).split())


def _first_sentence(found: object) -> str:
    return re.split(r"(?<=[.:]) (?=[A-Z`])", _one_line(found).partition("  ")[0], maxsplit=1)[0]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    main()

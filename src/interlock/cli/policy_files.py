"""Policy files from disk: read, or refused with file, line and column as compilers do."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Iterable
from typing import TYPE_CHECKING

from interlock.cli.exits import Exit, Failed
from interlock.cli.values import read_bytes
from interlock.cli.wording import counted, safe

if TYPE_CHECKING:
    from interlock.codec.located import LocatedFault
    from interlock.policy.language import PolicyDocument


def read_text(path: str) -> str:
    """The text of a file; `-` is stdin."""
    try:
        return read_bytes(path).decode()
    except ArgumentTypeError as error:
        raise Failed(f"{error}; check the path", Exit.USAGE, name="unreadable") from None
    except UnicodeDecodeError:
        raise Failed(f"{path} is not UTF-8 text", name="unreadable") from None


def read_policy(path: str) -> tuple[str, PolicyDocument]:
    """The text and the policy in it."""
    from interlock.codec.located import SourceInvalid
    from interlock.policy.parsing import parse_policy

    text = read_text(path)
    try:
        return text, parse_policy(text)
    except SourceInvalid as invalid:
        raise refused(path, invalid.errors, "policy") from invalid


def refused(path: str, errors: Iterable[LocatedFault], what: str) -> Failed:
    """The end of a command that was given this file."""
    found = tuple(errors)
    lines = [f"{path} is not a {what} ({counted(len(found), 'error')}):"]
    lines += [f"{path}:{safe(str(error))}" for error in found]
    listed = [
        {"path": error.path, "reason": error.message, "line": error.line, "column": error.column}
        for error in found
    ]
    return Failed("\n  ".join(lines), name="invalid_policy", problem={"file": path, "errors": listed})

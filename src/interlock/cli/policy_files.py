"""Reads policy files from disk, with errors that name file, line and column as compilers do."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Iterable
from typing import TYPE_CHECKING

from interlock.cli.exits import Exit, Failed
from interlock.cli.output import counted, safe
from interlock.cli.values import read_bytes

if TYPE_CHECKING:
    from interlock.kernel.codec.located import LocatedFault
    from interlock.rooms.policy.language import PolicyDocument
    from interlock.rooms.policy.parser import Checked


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
    text, checked = check_policy_file(path)
    return text, checked.document


def check_policy_file(path: str) -> tuple[str, Checked]:
    """The text, and the policy in it with its warnings."""
    from interlock.kernel.codec.located import SourceInvalid
    from interlock.rooms.policy.parser import check_policy

    text = read_text(path)
    try:
        return text, check_policy(text)
    except SourceInvalid as invalid:
        raise refused(path, invalid.errors, "policy") from invalid


def refused(path: str, errors: Iterable[LocatedFault], what: str) -> Failed:
    """The end of a command that was given this file."""
    found = tuple(errors)
    lines = [f"{path} is not a {what} ({counted(len(found), 'error')}):"]
    lines += [f"{path}:{safe(str(error))}" for error in found]
    problem = {"file": path, "errors": located(found)}
    return Failed("\n  ".join(lines), name="invalid_policy", problem=problem)


def located(found: Iterable[LocatedFault]) -> list[dict[str, object]]:
    """Errors or warnings as the API spells them."""
    return [
        {"path": each.path, "reason": each.message, "line": each.line, "column": each.column}
        for each in found
    ]


def warn_of(path: str, warnings: Iterable[LocatedFault]) -> None:
    """Print what is allowed in a policy but may not be meant, on stderr."""
    from interlock.cli.output import warn

    for each in warnings:
        warn(f"warning: {path}:{each}")

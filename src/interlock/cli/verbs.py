"""The words after a command, such as `interlock runs start`, and what several of them take."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from typing import NamedTuple

from interlock.cli.options import Run


class Verb(NamedTuple):
    """One word after a command."""

    name: str
    summary: str
    declare: Callable[[ArgumentParser], None]
    run: Run
    example: str = ""
    more: str = ""


def holding(parser: ArgumentParser, what: str, *, metavar: str, fence: str) -> None:
    """Add what is held, and the fence it is held under."""
    parser.add_argument("id", metavar=metavar, help=what)
    parser.add_argument("--fence", type=int, required=True, metavar="N", help=fence)

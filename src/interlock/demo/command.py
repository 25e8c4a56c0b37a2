"""`interlock demo`: a few payments, played against a real server on a temporary store."""

from __future__ import annotations

from argparse import Namespace

from interlock.cli.exits import Exit
from interlock.cli.options import Parser


def declare_demo() -> Parser:
    """The options of `interlock demo`."""
    parser = Parser(
        "interlock demo",
        description="Start a server on a temporary store, play a few scenes against it with real clients,\n"
        "and check what Interlock promises. Takes about 15 seconds and leaves nothing behind.\n"
        "Exit code 1 if a promise was not kept.",
    )
    parser.set_defaults(run=run_demo)
    return parser


def run_demo(args: Namespace) -> int:
    """Play every scene."""
    from interlock.demo.performance import perform
    from interlock.demo.scenes import SCENES

    return Exit.DONE if perform(SCENES) else Exit.ERROR

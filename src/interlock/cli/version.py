"""`interlock version`."""

from __future__ import annotations

from argparse import Namespace

from interlock.cli.exits import Exit
from interlock.cli.options import Parser, as_json, wants_json


def declare_version() -> Parser:
    """The options of `interlock version`."""
    parser = Parser("interlock version", description="Print the version of this program.")
    as_json(parser)
    parser.set_defaults(run=run_version)
    return parser


def run_version(args: Namespace) -> int:
    """Print it."""
    from interlock.cli.output import say, say_json

    version = installed_version()
    if wants_json(args):
        say_json({"version": version})
    else:
        say(f"interlock {version}")
    return Exit.DONE


def installed_version() -> str:
    """The version that was installed."""
    from importlib.metadata import version

    return version("interlock")

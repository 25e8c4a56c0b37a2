"""`interlock settings`: what a server runs with, and where each setting came from."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from interlock.cli.exits import Exit
from interlock.cli.options import Parser, as_json, connecting, wants_json

if TYPE_CHECKING:
    from interlock.wire.settings import ServerSettings, Setting

_HIDDEN = "(hidden)"


def declare_settings() -> Parser:
    """The options of `interlock settings`."""
    parser = Parser(
        "interlock settings",
        description="Show what a server runs with, without credentials, and where each setting came from.\n"
        "It needs the role operate or admin, in the tenant `default`.",
        examples=("interlock settings", "interlock settings --json"),
    )
    as_json(parser)
    connecting(parser)
    parser.set_defaults(run=run_settings)
    return parser


def run_settings(args: Namespace) -> int:
    """Read and print them."""
    from interlock.cli.connection import connected
    from interlock.cli.output import say_json

    with connected(args) as client:
        found = client.settings()
    if wants_json(args):
        say_json(found)
    else:
        _say(found)
    return Exit.DONE


def _say(found: ServerSettings) -> None:
    from interlock.cli.output import Column, exactly, safe, say, say_fields, say_table

    say_fields(
        [
            ("version", safe(found.version)),
            ("store", f"{safe(found.store_kind)}: {safe(found.store_place)}"),
            ("running since", exactly(found.started_at)),
        ]
    )
    say("")
    columns = (Column("SETTING"), Column("VALUE", flexible=True), Column("FROM"))
    rows = ((safe(each.name), safe(_value(each)), safe(each.source or "-")) for each in found.settings)
    say_table(columns, rows)


def _value(setting: Setting) -> str:
    return _HIDDEN if setting.value is None else setting.value or "-"

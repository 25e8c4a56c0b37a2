"""`interlock settings`: what a server runs with, and where each setting came from."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from interlock.cli.options import Parser, finished
from interlock.cli.output import Table, exactly, safe, say, say_fields

if TYPE_CHECKING:
    from interlock.wire.server import ServerSettings, Setting

_HIDDEN = "(hidden)"


def declare_settings() -> Parser:
    """The options of `interlock settings`."""
    parser = Parser(
        "interlock settings",
        description="Show what a server runs with, without credentials, and where each setting came from.\n"
        "It needs the role operate or admin, in the tenant `default`.",
        examples=("interlock settings", "interlock settings --json"),
    )
    return finished(parser, run_settings)


def run_settings(args: Namespace) -> int:
    """Read and print them."""
    from interlock.cli.connection import answer, connected

    with connected(args) as client:
        found = client.get_settings()
    return answer(args, found, _say)


def _say(found: ServerSettings) -> None:
    say_fields(
        [
            ("version", safe(found.version)),
            ("store", f"{safe(found.store_kind)}: {safe(found.store_place)}"),
            ("running since", exactly(found.started_at)),
        ]
    )
    say("")
    (
        Table(found.settings)
        .column("SETTING", lambda setting: setting.name)
        .column("VALUE", _value, flexible=True)
        .column("FROM", lambda setting: setting.source or "-")
        .say()
    )


def _value(setting: Setting) -> str:
    return _HIDDEN if setting.value is None else setting.value or "-"

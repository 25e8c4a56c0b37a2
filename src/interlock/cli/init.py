"""`interlock init`: creates the store, and nothing else."""

from __future__ import annotations

import argparse
from argparse import Namespace
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from interlock.cli.exits import Exit, Failed
from interlock.cli.options import Parser, as_json, given, wants_json
from interlock.cli.output import say, say_json, without_password

if TYPE_CHECKING:
    from interlock.service.service import Service


def declare_init() -> Parser:
    """The options of `interlock init`."""
    parser = Parser(
        "interlock init",
        description="Make a store: .interlock/ in this folder, or the one that is named. A store that is there is\n"
        "left as it is. `interlock serve`, `interlock key create` and, where no store is named, the first\n"
        "command that writes make one too; no other command does.",
        examples=("interlock init", "interlock init --store postgresql://interlock@db/interlock"),
    )
    parser.add_argument(
        "--store", metavar="URL", default=argparse.SUPPRESS,
        help="sqlite:///path or postgresql://… [INTERLOCK_STORE; default: sqlite:///.interlock/interlock.db]",
    )  # fmt: skip
    as_json(parser)
    parser.set_defaults(run=run_init)
    return parser


def run_init(args: Namespace) -> int:
    """Make the store if it is not there."""
    import asyncio

    from interlock.cli.connection import translated
    from interlock.service.settings import EMBEDDED_STORE, make_store, store_named

    # Not the nearest one: `interlock init` makes the store in this folder.
    url = store_named(given(args, "store")) or EMBEDDED_STORE
    if url.startswith("memory:"):
        raise Failed("a store in memory ends with its process; name a file or a database", Exit.USAGE)
    above = _store_above() if url == EMBEDDED_STORE else None
    with translated(args):
        was_made = asyncio.run(make_store(url))
    shown = without_password(url)
    if wants_json(args):
        told: dict[str, Any] = {"store": shown, "made": was_made}
        say_json(told)
        return Exit.DONE
    say(f"made a store: {shown}" if was_made else f"there is a store already: {shown}")
    if was_made:
        if above:
            say(f"In this folder it takes the place of the one above: {above}")
        say("Next: interlock policy apply FILE, which says what may happen; interlock serve, to share it.")
    return Exit.DONE


def _store_above() -> str | None:
    from interlock.service.settings import EMBEDDED_STORE, embedded_store

    found = embedded_store()
    return None if found == EMBEDDED_STORE else found


T = TypeVar("T")


def on_store(args: Namespace, work: Callable[[Service], Awaitable[T]], *, makes_store: bool = False) -> T:
    """Do something on the store that the options or the environment name."""
    import asyncio

    from interlock.cli.connection import translated
    from interlock.service.service import open_service
    from interlock.service.settings import settings_from

    async def opened() -> T:
        settings = settings_from(store=given(args, "store"), workers=1)
        async with open_service(settings, sweeping=False, makes_store=makes_store) as service:
            return await work(service)

    with translated(args):
        return asyncio.run(opened())

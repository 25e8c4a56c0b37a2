"""`interlock targets` and `target`: what is changed, who holds it, what waits for it."""

from __future__ import annotations

from argparse import Namespace

from interlock.cli.exits import Exit
from interlock.cli.options import Parser, as_json, connecting, paging, wants_json


def declare_targets() -> Parser:
    """The options of `interlock targets`."""
    parser = Parser(
        "interlock targets",
        description="List targets that were touched, by key.",
        examples=("interlock targets", "interlock targets --prefix repo:billing/"),
    )
    parser.add_argument("--prefix", metavar="KEY", help="only keys that begin with it")
    paging(parser)
    as_json(parser)
    connecting(parser)
    parser.set_defaults(run=run_targets)
    return parser


def declare_target() -> Parser:
    """The options of `interlock target`."""
    parser = Parser(
        "interlock target",
        description="Show a target: its version, who holds it, who touched it, what waits and what collided.",
        examples=("interlock target repo:billing/invoice.py",),
    )
    parser.add_argument("key", metavar="KEY", help="the target's key")
    as_json(parser)
    connecting(parser)
    parser.set_defaults(run=run_target)
    return parser


def run_targets(args: Namespace) -> int:
    """List targets."""
    from interlock.cli.connection import connected, listing, more, typed
    from interlock.cli.output import say, say_json
    from interlock.cli.shared_page import say_targets
    from interlock.sdk.shared_work import Touched

    with connected(args) as client:
        query = {"prefix": args.prefix}
        page = listing(client, "targets", limit=args.limit, cursor=args.cursor, query=query)
    if wants_json(args):
        say_json(page)
    elif page["items"]:
        say_targets(typed(page["items"], list[Touched]))
        say(*filter(None, [more(page, "interlock targets", args, query)]))
    else:
        say("no targets; report a change with `interlock touch FILE`")
    return Exit.DONE


def run_target(args: Namespace) -> int:
    """Show one target."""
    from interlock.cli.connection import connected, typed
    from interlock.cli.output import say_json
    from interlock.cli.shared_page import say_target
    from interlock.sdk.shared_work import TargetState

    with connected(args) as client:
        found = client.call("GET", "targets", args.key)
    if wants_json(args):
        say_json(found)
    else:
        say_target(typed(found, TargetState))
    return Exit.DONE

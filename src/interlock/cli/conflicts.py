"""`interlock conflicts` and `conflict`: what collided, how to resolve it, and what recurs."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from interlock.cli.exits import Exit
from interlock.cli.options import Parser, as_json, connecting, paging, told, wants_json

RESOLUTIONS = ("keep_first", "keep_second", "merge", "retry", "discard")


def declare_conflicts() -> Parser:
    """The options of `interlock conflicts`."""
    parser = Parser(
        "interlock conflicts",
        description="List collisions, newest first. Without --state, those that are open.",
        examples=("interlock conflicts", "interlock conflicts --kind stale_fence --state all --json"),
    )
    parser.add_argument(
        "--state", choices=("open", "resolved", "all"), default="open", help="(default: open)"
    )
    parser.add_argument("--kind", metavar="KIND", help="only this kind, such as human_edit_during_lease")
    paging(parser)
    _ends(parser, run_conflicts)
    return parser


def declare_conflict() -> Parser:
    """The options of `interlock conflict …`."""
    parser = Parser(
        "interlock conflict",
        description="Show a collision, settle one, or see what keeps colliding.",
        examples=(
            "interlock conflict show cnf_…",
            "interlock conflict resolve cnf_… keep_second --note 'the edit is right'",
            "interlock conflict patterns",
        ),
    )
    verbs = parser.add_subparsers(metavar="show|resolve|patterns", required=True, parser_class=Parser)
    show = verbs.add_parser("show", **told("who collided over what, and the safest next step"))
    show.add_argument("id", metavar="ID", help="the conflict's id")
    _ends(show, run_show)
    resolve = verbs.add_parser("resolve", **told("say how it was settled, and carry that out"))
    resolve.add_argument("id", metavar="ID", help="the conflict's id")
    resolve.add_argument("resolution", choices=RESOLUTIONS, metavar="|".join(RESOLUTIONS))
    resolve.add_argument("--note", required=True, help="why; it is kept")
    _ends(resolve, run_resolve)
    patterns = verbs.add_parser("patterns", **told("what keeps colliding, and what would prevent it"))
    patterns.add_argument("--last", type=int, default=500, metavar="N", help="of the newest (default 500)")
    _ends(patterns, run_patterns)
    return parser


def run_conflicts(args: Namespace) -> int:
    """List conflicts."""
    from interlock.cli.connection import connected, listing, more, typed
    from interlock.cli.output import say, say_json
    from interlock.cli.shared_page import say_conflicts
    from interlock.wire.shared import Conflict

    query = {"state": None if args.state == "all" else args.state, "kind": args.kind}
    with connected(args) as client:
        page = listing(client, "conflicts", limit=args.limit, cursor=args.cursor, query=query)
    if wants_json(args):
        say_json(page)
    elif page.items:
        say_conflicts(typed(page.items, list[Conflict]))
        say(*filter(None, [more(page, "interlock conflicts", args, {**query, "state": args.state})]))
    else:
        say("nothing collided; `interlock conflicts --state all` shows what was settled")
    return Exit.DONE


def run_show(args: Namespace) -> int:
    """Show one conflict."""
    from interlock.cli.connection import connected, typed
    from interlock.cli.output import say_json
    from interlock.cli.shared_page import say_conflict
    from interlock.wire.shared import Conflict

    with connected(args) as client:
        found = client.call("GET", "conflicts", args.id)
    if wants_json(args):
        say_json(found)
    else:
        say_conflict(typed(found, Conflict))
    return Exit.DONE


def run_resolve(args: Namespace) -> int:
    """Settle one conflict."""
    from interlock.cli.connection import connected
    from interlock.cli.output import say, say_json

    with connected(args) as client:
        conflict = client.resolve_conflict(args.id, args.resolution, note=args.note)
    if wants_json(args):
        say_json(conflict)
    else:
        done = ", ".join(step.replace("_", " ") for step in conflict.carried_out)
        say(f"{conflict.id} is resolved: {args.resolution}" + (f"; carried out: {done}" if done else ""))
    return Exit.DONE


def run_patterns(args: Namespace) -> int:
    """Show what keeps colliding."""
    from interlock.cli.connection import connected
    from interlock.cli.output import say, say_json
    from interlock.cli.shared_page import say_patterns

    with connected(args) as client:
        patterns = client.conflict_patterns(last=args.last)
    if wants_json(args):
        say_json(patterns)
    elif patterns.items:
        say_patterns(patterns.items)
    else:
        say("nothing collided so far")
    return Exit.DONE


def _ends(parser: ArgumentParser, run: object) -> None:
    as_json(parser)
    connecting(parser)
    parser.set_defaults(run=run)


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
    from interlock.wire.shared import Touched

    with connected(args) as client:
        query = {"prefix": args.prefix}
        page = listing(client, "targets", limit=args.limit, cursor=args.cursor, query=query)
    if wants_json(args):
        say_json(page)
    elif page.items:
        say_targets(typed(page.items, list[Touched]))
        say(*filter(None, [more(page, "interlock targets", args, query)]))
    else:
        say("no targets; report a change with `interlock touch FILE`")
    return Exit.DONE


def run_target(args: Namespace) -> int:
    """Show one target."""
    from interlock.cli.connection import connected, typed
    from interlock.cli.output import say_json
    from interlock.cli.shared_page import say_target
    from interlock.wire.shared import TargetState

    with connected(args) as client:
        found = client.call("GET", "targets", args.key)
    if wants_json(args):
        say_json(found)
    else:
        say_target(typed(found, TargetState))
    return Exit.DONE

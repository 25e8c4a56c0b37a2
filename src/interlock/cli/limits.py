"""`interlock limits`: how many runs may be active at once, and how many are."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace

from interlock.cli.exits import Exit
from interlock.cli.options import Parser, as_json, connecting, told, wants_json

_MOST = 1_000_000


def declare_limits() -> Parser:
    """The options of `interlock limits`."""
    parser = Parser(
        "interlock limits",
        description="Show how many runs the tenant, and single workflows, may have at once; set or clear a limit.\n"
        "Lowering one ends no run; it only stops new ones.",
        examples=(
            "interlock limits",
            "interlock limits set tenant 20",
            "interlock limits set nightly-report 1",
            "interlock limits clear nightly-report",
            "interlock limits stats --window 10m",
            "interlock limits stats --window 7d --step 24h --workflow nightly-report",
        ),
    )
    as_json(parser)
    connecting(parser)
    parser.set_defaults(run=run_limits)
    verbs = parser.add_subparsers(metavar="set|clear|stats", parser_class=Parser)
    setting = verbs.add_parser("set", **told("change a limit"))
    setting.add_argument("scope", metavar="SCOPE", help="`tenant`, or a workflow's id")
    setting.add_argument("most", metavar="N", type=_number, help="how many runs at once; 0 stops new ones")
    clearing = verbs.add_parser("clear", **told("take a limit away"))
    clearing.add_argument("scope", metavar="SCOPE", help="`tenant`, or a workflow's id")
    telling = verbs.add_parser("stats", **told("show how starts ended, on all servers"))
    _declare_stats(telling)
    for verb, run in ((setting, run_set), (clearing, run_clear), (telling, run_stats)):
        as_json(verb)
        connecting(verb)
        verb.set_defaults(run=run)
    return parser


def _declare_stats(telling: Parser) -> None:
    telling.add_argument(
        "--window", metavar="1h", default="1h", help="how far back to look, up to 30d (default 1h)"
    )
    telling.add_argument("--step", metavar="10m", help="also count by steps of this length")
    telling.add_argument("--workflow", metavar="ID", help="of one workflow only")
    telling.add_argument(
        "--topics", action="store_true", help="count jobs that the policy throttled, by topic"
    )
    telling.add_argument(
        "--limit", metavar="N", type=_number, help="how many workflows or topics (default 50)"
    )
    telling.add_argument("--cursor", metavar="CURSOR", help="go on where the page before ended")


def run_limits(args: Namespace) -> int:
    """List limits."""
    from interlock.cli.connection import connected, typed
    from interlock.cli.output import say_json
    from interlock.cli.run_page import say_limits
    from interlock.wire.admission import Limits

    with connected(args) as client:
        found = client.call("GET", "limits", query={"limit": 200})
    if wants_json(args):
        say_json(found)
    else:
        say_limits(typed(found, Limits))
    return Exit.DONE


def run_set(args: Namespace) -> int:
    """Change one limit."""
    from interlock.cli.connection import connected, typed
    from interlock.cli.output import counted, safe, say, say_json
    from interlock.wire.admission import Limit, SetLimitBody

    with connected(args) as client:
        found = client.call("PUT", "limits", args.scope, body=SetLimitBody(max_concurrent_runs=args.most))
    if wants_json(args):
        say_json(found)
    else:
        limit = typed(found, Limit)
        runs = counted(limit.max_concurrent_runs, "run")
        say(f"{safe(limit.scope)} may have {runs} at once")
    return Exit.DONE


def run_clear(args: Namespace) -> int:
    """Take one limit away."""
    from interlock.cli.connection import connected
    from interlock.cli.output import safe, say, say_json

    with connected(args) as client:
        cleared = client.clear_limit(args.scope)
    if wants_json(args):
        say_json(cleared)
    elif cleared.cleared:
        say(f"{safe(cleared.scope)} has no limit of its own any more")
    else:
        say(f"{safe(cleared.scope)} had no limit of its own")
    return Exit.DONE


def run_stats(args: Namespace) -> int:
    """Show how starts ended."""
    from interlock.cli.connection import connected
    from interlock.cli.output import say_json
    from interlock.cli.run_page import say_stats

    with connected(args) as client:
        stats = client.admission_stats(
            window=args.window,
            step=args.step,
            by="topic" if args.topics else None,
            name=args.workflow,
            limit=args.limit,
            cursor=args.cursor,
        )
    if wants_json(args):
        say_json(stats)
    else:
        say_stats(stats)
    return Exit.DONE


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= _MOST):
        raise ArgumentTypeError(f"{text!r} is not a number from 0 to {_MOST}")
    return int(text)

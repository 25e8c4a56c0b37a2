"""`interlock effects` and `effect`: side effects, what became of them, and saying so where nobody knows."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from interlock.cli import effect_attempts as attempts
from interlock.cli.exits import Exit
from interlock.cli.options import Parser, as_json, connecting, paging, told, wants_json
from interlock.cli.values import json_value

STATES = ("IN_PROGRESS", "COMMITTED", "FAILED", "AMBIGUOUS")


def declare_effects() -> Parser:
    """The options of `interlock effects`."""
    parser = Parser(
        "interlock effects",
        description="List side effects, newest first.",
        examples=("interlock effects --state AMBIGUOUS", "interlock effects --json"),
    )
    parser.add_argument("--state", type=str.upper, choices=STATES, metavar="STATE", help=", ".join(STATES))
    paging(parser)
    _ends(parser, run_effects)
    return parser


def declare_effect() -> Parser:
    """The options of `interlock effect …`."""
    parser = Parser(
        "interlock effect",
        description="Begin a side effect that must happen once, say how it ended, or show what became of it.",
        examples=(
            'interlock effect begin refund:4711 --request \'{"txn": "4711"}\' --grant finance.refund',
            'interlock effect commit refund:4711 --fence 1 --result \'{"receipt": "r1"}\'',
            "interlock effect show refund:4711",
            "interlock effect resolve refund:4711 committed --evidence 'bank statement 12, line 3'",
            "interlock effect resolve refund:4711 not_committed --evidence 'unknown to the bank'",
        ),
    )
    names = "begin|commit|fail|show|resolve"
    verbs = parser.add_subparsers(metavar=names, required=True, parser_class=Parser)
    for attempt in attempts.VERBS:
        verb = verbs.add_parser(attempt.name, **told(attempt.summary), more=attempt.more)
        attempt.declare(verb)
        _ends(verb, attempt.run)
    show = verbs.add_parser("show", **told("what became of it"))
    show.add_argument("id", metavar="ACTION_ID", help="the action's own id")
    _ends(show, run_show)
    resolve = verbs.add_parser("resolve", **told("say what happened, and how you know"))
    resolve.add_argument("id", metavar="ACTION_ID", help="the action's own id")
    resolve.add_argument("outcome", choices=("committed", "not_committed"))
    resolve.add_argument("--evidence", required=True, metavar="TEXT", help="how you know; it is kept")
    resolve.add_argument("--result", type=json_value, metavar="JSON", help="what a repeat shall return")
    _ends(resolve, run_resolve)
    return parser


def run_effects(args: Namespace) -> int:
    """List effects."""
    from interlock.cli.connection import connected, listing, more, typed
    from interlock.cli.output import say, say_json
    from interlock.cli.shared_page import say_effects
    from interlock.sdk.shared_work import Effect

    with connected(args) as client:
        query = {"state": args.state}
        page = listing(client, "effects", limit=args.limit, cursor=args.cursor, query=query)
    if wants_json(args):
        say_json(page)
    elif page["items"]:
        say_effects(typed(page["items"], list[Effect]))
        say(*filter(None, [more(page, "interlock effects", args, query)]))
    else:
        none = "no effects yet; `interlock effect begin`, or `il.once(…)` in the SDK, records them"
        say("no effects match" if args.state else none)
    return Exit.DONE


def run_show(args: Namespace) -> int:
    """Show one effect."""
    from interlock.cli.connection import connected, typed
    from interlock.cli.output import say_json
    from interlock.cli.shared_page import say_effect
    from interlock.sdk.shared_work import Effect

    with connected(args) as client:
        found = client.call("GET", "effects", args.id)
    if wants_json(args):
        say_json(found)
    else:
        say_effect(typed(found, Effect))
    return Exit.DONE


def run_resolve(args: Namespace) -> int:
    """Say what became of an effect."""
    from msgspec import to_builtins

    from interlock.cli.connection import connected
    from interlock.cli.output import say, say_json

    with connected(args) as client:
        effect = client.resolve_effect(args.id, args.outcome, evidence=args.evidence, result=args.result)
    if wants_json(args):
        say_json(to_builtins(effect))
    elif effect.state == "COMMITTED":
        say(f"{effect.action_id} is COMMITTED; a repeat returns its result and does nothing")
    else:
        say(f"{effect.action_id} is {effect.state}; one new attempt may begin")
    return Exit.DONE


def _ends(parser: ArgumentParser, run: object) -> None:
    as_json(parser)
    connecting(parser)
    parser.set_defaults(run=run)

"""`interlock runs` and `interlock run`: who holds a slot, and how runs ended; `run_slots` has the verbs."""

from __future__ import annotations

from argparse import Namespace

from interlock.cli.exits import Exit
from interlock.cli.options import Parser, as_json, connecting, paging, told, wants_json
from interlock.cli.run_slots import VERBS, declare_verb

STATES = ("running", "succeeded", "failed", "cancelled", "lost")


def declare_runs() -> Parser:
    """The options of `interlock runs`."""
    parser = Parser(
        "interlock runs",
        description="List runs of workflows, newest first; or take a slot for one, keep it, and give it back.",
        examples=(
            "interlock runs --state running",
            "interlock runs --workflow nightly-report --json",
            *(verb.example for verb in VERBS),
        ),
    )
    parser.add_argument("--state", type=str.lower, choices=STATES, metavar="STATE", help=", ".join(STATES))
    parser.add_argument("--workflow", metavar="NAME", help="only runs of this workflow")
    paging(parser)
    as_json(parser)
    connecting(parser)
    parser.set_defaults(run=run_runs)
    verbs = parser.add_subparsers(metavar="|".join(verb.name for verb in VERBS), parser_class=Parser)
    for verb in VERBS:
        declare_verb(verbs.add_parser(verb.name, **told(verb.summary)), verb)
    return parser


def declare_run() -> Parser:
    """The options of `interlock run`."""
    parser = Parser(
        "interlock run",
        description="Show one run, and the slot it holds.",
        examples=("interlock run run_…", "interlock workflow run run_…   # with its steps"),
    )
    parser.add_argument("id", metavar="ID", help="the id that starting it returned")
    as_json(parser)
    connecting(parser)
    parser.set_defaults(run=run_run)
    return parser


def run_runs(args: Namespace) -> int:
    """List runs."""
    from interlock.cli.connection import connected, listing, more, typed
    from interlock.cli.output import say, say_json
    from interlock.cli.run_page import say_runs
    from interlock.sdk.models import Run

    with connected(args) as client:
        query = {"state": args.state, "workflow": args.workflow}
        page = listing(client, "workflow-runs", limit=args.limit, cursor=args.cursor, query=query)
    if wants_json(args):
        say_json(page)
    elif page["items"]:
        say_runs(typed(page["items"], list[Run]))
        say(*filter(None, [more(page, "interlock runs", args, query)]))
    else:
        say(_nothing(args))
    return Exit.DONE


def run_run(args: Namespace) -> int:
    """Show one run."""
    from interlock.cli.connection import connected, typed
    from interlock.cli.output import say_json
    from interlock.cli.run_page import say_run
    from interlock.sdk.models import Run

    with connected(args) as client:
        found = client.call("GET", "workflow-runs", args.id)
    if wants_json(args):
        say_json(found)
    else:
        say_run(typed(found, Run))
    return Exit.DONE


def _nothing(args: Namespace) -> str:
    if args.state or args.workflow or args.cursor:
        return "no runs match; `interlock runs` lists them all"
    return 'no runs yet; start one with `interlock runs start WORKFLOW`, or `il.admit("WORKFLOW")` in the SDK'

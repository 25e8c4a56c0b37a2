"""`interlock runs` and `interlock run`: who holds a slot, and how runs ended."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from interlock.cli.exits import Exit
from interlock.cli.options import Parser, Verb, as_json, connecting, intent, paging, told, wants_json
from interlock.cli.values import json_value, seconds, some_seconds

if TYPE_CHECKING:
    from interlock.wire.admission import Run
    from interlock.wire.fields import Body


_START_EXITS = """\
exit codes:
  0 the run holds a slot, anything else: do not begin. 3 it was started before under this key, and is over;
  5 full: evaluated, and there is no room; 6 it could not be evaluated
"""


def declare_start(parser: ArgumentParser) -> None:
    """Which workflow, and how patient."""
    parser.add_argument("workflow", metavar="WORKFLOW", help="any name, or the id of one with steps")
    parser.add_argument("--input", type=json_value, metavar="JSON|@FILE|-", help="what it works on; kept")
    parser.add_argument(
        "--ttl",
        type=some_seconds,
        default=60,
        metavar="60s",
        help="the slot is lost unless renewed (default 60s)",
    )
    parser.add_argument("--wait", type=seconds, default=0, metavar="0s", help="wait in line this long")
    intent(parser, "starting it again finds the same run")


def declare_renew(parser: ArgumentParser) -> None:
    """Which run."""
    _holding(parser)


def declare_complete(parser: ArgumentParser) -> None:
    """It went well."""
    _holding(parser)
    parser.add_argument("--result", type=json_value, metavar="JSON|@FILE|-", help="what came of it; kept")


def declare_fail(parser: ArgumentParser) -> None:
    """It did not go well."""
    _holding(parser)
    parser.add_argument("--error", default="", metavar="TEXT", help="what went wrong; kept")


def declare_cancel(parser: ArgumentParser) -> None:
    """Somebody stops it."""
    _holding(parser)
    parser.add_argument("--reason", default="", metavar="TEXT", help="why; it is kept")


def run_start(args: Namespace) -> int:
    """Take a slot, or say why there is none."""
    from interlock.cli.connection import connected, typed
    from interlock.cli.output import say_json
    from interlock.cli.run_page import say_started
    from interlock.wire.admission import Run as StartedRun
    from interlock.wire.admission import StartRunBody

    body = StartRunBody(input=args.input, ttl_seconds=args.ttl, wait_seconds=args.wait)
    with connected(args) as client:
        where = ("workflows", args.workflow, "runs")
        found = client.call(
            "POST",
            *where,
            body=body,
            key=args.intent,
            hold_seconds=args.wait,
            busy_seconds=max(args.wait, args.patience),
            say=client.session.says(f"a slot of {args.workflow}", args.wait),
        )
        run = typed(found, StartedRun)
        if args.intent is not None:
            # Under a name the answer may be one given before: what counts is how the run stands now.
            found = client.call("GET", "workflow-runs", run.run_id)
            run = typed(found, StartedRun)
    if wants_json(args):
        say_json(found)
    else:
        say_started(run)
    return Exit.DONE if run.state == "running" else Exit.DENIED


def run_renew(args: Namespace) -> int:
    """Keep a slot."""
    from interlock.wire.admission import RunFenceBody

    return _told(args, "renew", RunFenceBody(fence=args.fence))


def run_complete(args: Namespace) -> int:
    """End a run well."""
    from interlock.wire.admission import CompleteRunBody

    return _told(args, "complete", CompleteRunBody(fence=args.fence, result=args.result))


def run_fail(args: Namespace) -> int:
    """End a run badly."""
    from interlock.wire.admission import FailRunBody

    return _told(args, "fail", FailRunBody(fence=args.fence, error=args.error))


def run_cancel(args: Namespace) -> int:
    """Stop a run."""
    from interlock.wire.admission import CancelRunBody

    return _told(args, "cancel", CancelRunBody(fence=args.fence, reason=args.reason))


def _told(args: Namespace, verb: str, body: Body) -> int:
    from interlock.cli.connection import connected, typed
    from interlock.cli.output import say, say_json
    from interlock.wire.admission import Run as HeldRun

    with connected(args) as client:
        found = client.call("POST", "workflow-runs", args.id, verb, body=body)
    if wants_json(args):
        say_json(found)
    else:
        say(_sentence(typed(found, HeldRun)))
    return Exit.DONE


def _sentence(run: Run) -> str:
    from interlock.cli.output import exactly, safe, when
    from interlock.cli.run_page import ENDED

    name = f"{run.run_id} of {safe(run.workflow)}"
    if run.state == "running":
        return f"{name} holds its slot until {exactly(run.slot_expires_at)} ({when(run.slot_expires_at)})"
    return f"{name} {ENDED.get(run.state, f'is {run.state}')}; its slot is free"


def _holding(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the run's id")
    told = "the run's, as `start` printed it; whoever has the role operate needs none"
    parser.add_argument("--fence", type=int, metavar="N", help=told)


VERBS = (
    Verb(
        "start",
        "take a slot, if there is room",
        declare_start,
        run_start,
        "interlock runs start nightly-report --ttl 10m --wait 1m --key nightly-2030-01-01",
        _START_EXITS,
    ),
    Verb(
        "renew",
        "keep the slot for another period",
        declare_renew,
        run_renew,
        "interlock runs renew run_… --fence 3",
    ),
    Verb(
        "complete",
        "say that it went well, and free the slot",
        declare_complete,
        run_complete,
        "interlock runs complete run_… --fence 3 --result '{\"rows\": 120}'",
    ),
    Verb(
        "fail",
        "say that it did not go well, and free the slot",
        declare_fail,
        run_fail,
        "interlock runs fail run_… --fence 3 --error 'the warehouse did not answer'",
    ),
    Verb(
        "cancel",
        "stop a run, and free the slot",
        declare_cancel,
        run_cancel,
        "interlock runs cancel run_… --reason 'started by mistake'",
    ),
)


def declare_verb(parser: ArgumentParser, verb: Verb) -> None:
    """The options of one verb."""
    verb.declare(parser)
    as_json(parser)
    parser.epilog = "\n".join(filter(None, [f"examples:\n  {verb.example}\n", verb.more]))
    connecting(parser, key_option="--api-key" if verb.name == "start" else "--key")
    parser.set_defaults(run=verb.run)


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
    from interlock.wire.admission import Run

    with connected(args) as client:
        query = {"state": args.state, "workflow": args.workflow}
        page = listing(client, "workflow-runs", limit=args.limit, cursor=args.cursor, query=query)
    if wants_json(args):
        say_json(page)
    elif page.items:
        say_runs(typed(page.items, list[Run]))
        say(*filter(None, [more(page, "interlock runs", args, query)]))
    else:
        say(_nothing(args))
    return Exit.DONE


def run_run(args: Namespace) -> int:
    """Show one run."""
    from interlock.cli.connection import connected, typed
    from interlock.cli.output import say_json
    from interlock.cli.run_page import say_run
    from interlock.wire.admission import Run

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

"""`interlock runs`, `run` and `limits`: which runs hold a slot, how runs ended, and how many may be active at once."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from interlock.cli.exits import Exit
from interlock.cli.options import (
    Parser,
    finished,
    intent,
    paging,
    told,
)
from interlock.cli.output import (
    Cell,
    Table,
    counted,
    exactly,
    lasting,
    one_line,
    painted,
    safe,
    say,
    say_fields,
    when,
)
from interlock.cli.values import json_value, seconds, some_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.wire.admission import (
        AdmissionStats,
        Limit,
        Limits,
        Run,
        StartsOfWorkflow,
        TrafficPoint,
    )
    from interlock.wire.fields import Body

S = TypeVar("S", bound="StartsOfWorkflow | TrafficPoint")

_STYLES = {"running": "blue", "succeeded": "green", "failed": "red", "cancelled": "dim", "lost": "yellow"}
_TELLING = {
    "running": "it holds a slot",
    "succeeded": "done",
    "failed": "it failed",
    "cancelled": "it was stopped",
    "lost": "it stopped renewing, so its slot was taken back",
}
ENDED = {
    "succeeded": "has succeeded",
    "failed": "has failed",
    "cancelled": "was stopped",
    "lost": "lost its slot because it stopped renewing",
}

_START_EXITS = """\
exit codes:
  0 the run holds a slot, anything else: do not begin. 3 it was started before under this key, and is over;
  5 full: evaluated, and there is no room; 6 it could not be evaluated
"""


class _Report(NamedTuple):
    """What the holder of a slot reports about its run; `field` is an option and a field of the request."""

    verb: str
    summary: str
    field: str
    meaning: str
    example: str


_REPORTS = (
    _Report("renew", "keep the slot for another period", "", "", ""),
    _Report(
        "complete",
        "report that it succeeded, and free the slot",
        "result",
        "what came of it; kept",
        " --result '{\"rows\": 120}'",
    ),
    _Report(
        "fail",
        "report that it failed, and free the slot",
        "error",
        "what went wrong; kept",
        " --error 'the warehouse did not answer'",
    ),
    _Report(
        "cancel", "stop a run, and free the slot", "reason", "why; kept", " --reason 'started by mistake'"
    ),
)
_START_EXAMPLE = "interlock runs start nightly-report --ttl 10m --wait 1m --key nightly-2030-01-01"


def _declare_start(parser: Parser) -> None:
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
    finished(parser, run_start, key_option="--api-key")


def _declare_report(parser: Parser, report: _Report) -> None:
    parser.add_argument("id", metavar="ID", help="the run's id")
    fence = "the run's, as `start` printed it; not needed with the role operate"
    parser.add_argument("--fence", type=int, metavar="N", help=fence)
    if report.field == "result":
        parser.add_argument("--result", type=json_value, metavar="JSON|@FILE|-", help=report.meaning)
    elif report.field:
        parser.add_argument(f"--{report.field}", default="", metavar="TEXT", help=report.meaning)
    parser.set_defaults(report=report)
    finished(parser, run_report)


def run_start(args: Namespace) -> int:
    """Take a slot, or say why there is none."""
    from interlock.cli.connection import answer, connected, typed
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
    answer(args, found, lambda _: say_started(run))
    return Exit.DONE if run.state == "running" else Exit.DENIED


def run_report(args: Namespace) -> int:
    """Renew, complete, fail or cancel a run."""
    from interlock.cli.connection import answer_call
    from interlock.wire.admission import Run as HeldRun

    def tell(run: HeldRun) -> None:
        say(_sentence(run))

    where = ("workflow-runs", args.id, args.report.verb)
    return answer_call(args, "POST", *where, kind=HeldRun, tell=tell, body=_reported(args))


def _reported(args: Namespace) -> Body:
    from interlock.wire.admission import CancelRunBody, CompleteRunBody, FailRunBody, RunFenceBody

    match args.report.verb:
        case "complete":
            return CompleteRunBody(fence=args.fence, result=args.result)
        case "fail":
            return FailRunBody(fence=args.fence, error=args.error)
        case "cancel":
            return CancelRunBody(fence=args.fence, reason=args.reason)
        case _:
            return RunFenceBody(fence=args.fence)


def _sentence(run: Run) -> str:

    name = f"{run.run_id} of {safe(run.workflow)}"
    if run.state == "running":
        return f"{name} holds its slot until {exactly(run.slot_expires_at)} ({when(run.slot_expires_at)})"
    return f"{name} {ENDED.get(run.state, f'is {run.state}')}; its slot is free"


STATES = ("running", "succeeded", "failed", "cancelled", "lost")


def declare_runs() -> Parser:
    """The options of `interlock runs`."""
    examples = {each.verb: f"interlock runs {each.verb} run_… --fence 3{each.example}" for each in _REPORTS}
    parser = Parser(
        "interlock runs",
        description="List runs of workflows, newest first; or take a slot for one, keep it, and give it back.",
        examples=(
            "interlock runs --state running",
            "interlock runs --workflow nightly-report --json",
            _START_EXAMPLE,
            *examples.values(),
        ),
    )
    parser.add_argument("--state", type=str.lower, choices=STATES, metavar="STATE", help=", ".join(STATES))
    parser.add_argument("--workflow", metavar="NAME", help="only runs of this workflow")
    paging(parser)
    finished(parser, run_runs)
    verbs = parser.add_subparsers(metavar="|".join(("start", *examples)), parser_class=Parser)
    start = told("take a slot, if there is room")
    _declare_start(verbs.add_parser("start", **start, examples=(_START_EXAMPLE,), more=_START_EXITS))
    for each in _REPORTS:
        words = told(each.summary)
        _declare_report(verbs.add_parser(each.verb, **words, examples=(examples[each.verb],)), each)
    return parser


def declare_run() -> Parser:
    """The options of `interlock run`."""
    parser = Parser(
        "interlock run",
        description="Show one run, and the slot it holds.",
        examples=("interlock run run_…", "interlock workflow run run_…   # with its steps"),
    )
    parser.add_argument("id", metavar="ID", help="the id that starting it returned")
    return finished(parser, run_run)


def run_runs(args: Namespace) -> int:
    """List runs."""
    from interlock.cli.connection import answer_list
    from interlock.wire.admission import Run

    return answer_list(
        args,
        "workflow-runs",
        kind=Run,
        tell=say_runs,
        command="interlock runs",
        nothing=_nothing(args),
        query={"state": args.state, "workflow": args.workflow},
    )


def run_run(args: Namespace) -> int:
    """Show one run."""
    from interlock.cli.connection import answer_call
    from interlock.wire.admission import Run

    return answer_call(args, "GET", "workflow-runs", args.id, kind=Run, tell=say_run)


def _nothing(args: Namespace) -> str:
    if args.state or args.workflow or args.cursor:
        return "no runs match; `interlock runs` lists them all"
    return 'no runs yet; start one with `interlock runs start WORKFLOW`, or `il.admit("WORKFLOW")` in the SDK'


def say_runs(runs: Sequence[Run]) -> None:
    """A table of runs."""

    def slot(run: Run) -> str:
        return f"ends {when(run.slot_expires_at)}" if run.state == "running" else _held(run)

    (
        Table(runs)
        .column("ID", lambda run: run.run_id)
        .column("STATE", lambda run: Cell(run.state, _STYLES.get(run.state, "")))
        .column("WORKFLOW", lambda run: run.workflow, flexible=True)
        .column("BY", lambda run: run.started_by or "-", flexible=True, optional=True)
        .column("STARTED", lambda run: when(run.started_at))
        .column("SLOT", slot, optional=True)
        .say()
    )


def say_started(run: Run) -> None:
    """What a start came to, and what to do next."""
    name = f"{run.run_id} of {safe(run.workflow)}"
    if run.state != "running":
        say(f"{name} was started before under this key and {ENDED.get(run.state, f'is {run.state}')}")
        return
    say(
        f"{name} holds a slot until {exactly(run.slot_expires_at)} ({when(run.slot_expires_at)}).",
        f"If the workflow has steps they run by themselves: interlock workflow run {run.run_id}",
        "If not, the program that does the work runs one of",
        f"  interlock runs renew {run.run_id} --fence {run.fence}",
        f"  interlock runs complete {run.run_id} --fence {run.fence} [--result JSON]",
        f"  interlock runs fail {run.run_id} --fence {run.fence} --error TEXT",
    )


def say_run(run: Run) -> None:
    """Everything about one run."""
    say(painted(safe(run.workflow), "bold"), "")
    is_running = run.state == "running"
    say_fields(
        [
            ("run", run.run_id),
            ("state", Cell(f"{run.state}: {_TELLING.get(run.state, '')}", _STYLES.get(run.state, ""))),
            ("started", f"{when(run.started_at)} by {safe(run.started_by or '-')}"),
            ("ended", "" if run.ended_at is None else f"{when(run.ended_at)} ({exactly(run.ended_at)})"),
            ("slot", f"until {exactly(run.slot_expires_at)}" if is_running else _held(run)),
            ("ttl", f"{run.ttl_seconds}s"),
            ("fence", str(run.fence) if run.fence else ""),
            ("input", "" if run.input is None else one_line(run.input)),
            ("result", "" if run.result is None else one_line(run.result)),
            ("error", safe(run.error)),
        ]
    )


def _held(run: Run) -> str:
    if run.started_at is None or run.ended_at is None:
        return "-"
    return f"held {lasting((run.ended_at - run.started_at).total_seconds())}"


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
    finished(parser, run_limits)
    verbs = parser.add_subparsers(metavar="set|clear|stats", parser_class=Parser)
    setting = verbs.add_parser("set", **told("change a limit"))
    setting.add_argument("scope", metavar="SCOPE", help="`tenant`, or a workflow's id")
    setting.add_argument("most", metavar="N", type=_number, help="how many runs at once; 0 stops new ones")
    clearing = verbs.add_parser("clear", **told("take a limit away"))
    clearing.add_argument("scope", metavar="SCOPE", help="`tenant`, or a workflow's id")
    telling = verbs.add_parser("stats", **told("show how starts ended, on all servers"))
    _declare_stats(telling)
    for verb, run in ((setting, run_set), (clearing, run_clear), (telling, run_stats)):
        finished(verb, run)
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
    from interlock.cli.connection import answer, connected, typed
    from interlock.wire.admission import Limits

    with connected(args) as client:
        found = client.call("GET", "limits", query={"limit": 200})
    return answer(args, found, lambda found: say_limits(typed(found, Limits)))


def run_set(args: Namespace) -> int:
    """Change one limit."""
    from interlock.cli.connection import answer_call
    from interlock.wire.admission import Limit, SetLimitBody

    def tell(limit: Limit) -> None:
        say(f"{safe(limit.scope)} may have {counted(limit.max_concurrent_runs, 'run')} at once")

    body = SetLimitBody(max_concurrent_runs=args.most)
    return answer_call(args, "PUT", "limits", args.scope, kind=Limit, tell=tell, body=body)


def run_clear(args: Namespace) -> int:
    """Take one limit away."""
    from interlock.cli.connection import answer, connected

    with connected(args) as client:
        cleared = client.clear_limit(args.scope)
    words = "has no limit of its own any more" if cleared.cleared else "had no limit of its own"
    return answer(args, cleared, lambda cleared: say(f"{safe(cleared.scope)} {words}"))


def run_stats(args: Namespace) -> int:
    """Show how starts ended."""
    from interlock.cli.connection import answer, connected

    with connected(args) as client:
        stats = client.get_admission_stats(
            window=args.window,
            step=args.step,
            by="topic" if args.topics else None,
            name=args.workflow,
            limit=args.limit,
            cursor=args.cursor,
        )
    return answer(args, stats, say_stats)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= _MOST):
        raise ArgumentTypeError(f"{text!r} is not a number from 0 to {_MOST}")
    return int(text)


def say_limits(limits: Limits) -> None:
    """A table of limits, and how many starts wait."""
    (
        Table(limits.items)
        .column("SCOPE", lambda limit: limit.scope, flexible=True)
        .column("ACTIVE", _active)
        .column("LIMIT", lambda limit: str(limit.max_concurrent_runs))
        .column("SET BY", lambda limit: limit.set_by or "default")
        .column("SET", lambda limit: when(limit.set_at))
        .say()
    )
    if limits.waiting:
        say("", f"{counted(limits.waiting, 'start')} waiting in line")


def _active(limit: Limit) -> Cell:
    return Cell(str(limit.active), "yellow" if limit.active >= limit.max_concurrent_runs else "")


def say_stats(stats: AdmissionStats) -> None:
    """How starts ended: admitted, full, and not evaluated."""
    say(
        f"{stats.admitted} admitted, {stats.full_429} full (429), {stats.unavailable_503} not evaluated (503) "
        f"in the last {stats.window}, on all servers"
    )
    if stats.policy_throttled_429:
        say(f"{counted(stats.policy_throttled_429, 'job')} throttled by the policy (429)")
    if stats.series:
        say("")
        points = _starts(Table(stats.series).column("FROM", lambda point: exactly(point.at)))
        points.column("THROTTLED", lambda point: str(point.policy_throttled_429)).say()
    if stats.workflows:
        say("")
        _starts(Table(stats.workflows).column("WORKFLOW", lambda row: row.workflow, flexible=True)).say()
    if stats.topics:
        say("")
        topics = Table(stats.topics).column("TOPIC", lambda row: row.topic, flexible=True)
        topics.column("THROTTLED", lambda row: str(row.policy_throttled_429)).say()
    if stats.next_cursor:
        say(
            "", f"There are more: interlock limits stats --window {stats.window} --cursor {stats.next_cursor}"
        )


def _starts(table: Table[S]) -> Table[S]:
    """Add how starts ended, one column for each outcome."""
    return (
        table.column("ADMITTED", lambda row: str(row.admitted))
        .column("FULL", lambda row: str(row.full_429))
        .column("NOT EVALUATED", lambda row: str(row.unavailable_503))
    )

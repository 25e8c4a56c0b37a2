"""`interlock runs` and `run …`: which runs hold a slot, how far their steps came, and how they ended."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from interlock.cli.decisions import binding, shown_hash
from interlock.cli.exits import Exit
from interlock.cli.options import Noun, Parser, finished, intent, paging
from interlock.cli.output import (
    Cell,
    Table,
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
    from interlock.wire.admission import Run
    from interlock.wire.events import AuditEntry
    from interlock.wire.fields import Body
    from interlock.wire.workflows import RunStep

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
  0     the run holds a slot: begin
  3     it was started before under this --key, and is over; do not begin
  5     full: evaluated, and there is no room; do not begin
  6     it could not be evaluated; do not begin
  else  1 error, 2 wrong usage; do not begin
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
        "the result; it is kept",
        " --result '{\"rows\": 120}'",
    ),
    _Report(
        "fail",
        "report that it failed, and free the slot",
        "error",
        "what went wrong; it is kept",
        " --error 'the warehouse did not answer'",
    ),
    _Report(
        "cancel",
        "stop a run, and free the slot",
        "reason",
        "why; it is kept",
        " --reason 'started by mistake'",
    ),
)
_START_EXAMPLE = "interlock run start nightly-report --ttl 10m --wait 1m --key nightly-2030-01-01"
_APPROVE_EXAMPLE = "interlock run approve run_… agree --reason 'as discussed'"


def _declare_start(parser: Parser) -> None:
    parser.add_argument("workflow", metavar="WORKFLOW", help="any name, or the id of one with steps")
    parser.add_argument(
        "--input", type=json_value, metavar="JSON|@FILE|-", help="the run's input; it is kept"
    )
    parser.add_argument(
        "--ttl",
        type=some_seconds,
        default=60,
        metavar="60s",
        help="how long the slot is held without renewal (default 60s)",
    )
    parser.add_argument("--wait", type=seconds, default=0, metavar="0s", help="wait in line this long")
    intent(parser, "starting it again finds the same run")
    finished(parser, run_start)


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
    parser = Parser(
        "interlock runs",
        description="List runs of workflows, newest first.",
        examples=("interlock runs --state running", "interlock runs --workflow nightly-report --json"),
    )
    parser.add_argument("--state", type=str.lower, choices=STATES, metavar="STATE", help=", ".join(STATES))
    parser.add_argument("--workflow", metavar="NAME", help="only runs of this workflow")
    paging(parser)
    return finished(parser, run_runs)


def declare_run() -> Parser:
    """The options of `interlock run …`."""
    examples = {each.verb: f"interlock run {each.verb} run_… --fence 3{each.example}" for each in _REPORTS}
    parser = Noun(
        "interlock run",
        description="Take a slot for a run, keep it, and give it back; or follow a run with steps.",
        examples=(
            "interlock run run_…",
            _START_EXAMPLE,
            *examples.values(),
            _APPROVE_EXAMPLE,
            "interlock run rerun run_… --from send",
        ),
    )
    start = parser.verb(
        "start", "take a slot, if there is room", examples=(_START_EXAMPLE,), more=_START_EXITS
    )
    _declare_start(start)
    finished(_about_one(parser.verb("show", "show the slot it holds, and its steps")), run_show)
    for each in _REPORTS:
        _declare_report(parser.verb(each.verb, each.summary, examples=(examples[each.verb],)), each)
    timeline = parser.verb("timeline", "show what happened to a run, oldest first")
    finished(_about_one(timeline), run_timeline)
    _declare_approve(parser.verb("approve", "approve a step that asks people", examples=(_APPROVE_EXAMPLE,)))
    rerun = _about_one(parser.verb("rerun", "run it again from a step on"))
    rerun.add_argument(
        "--from", dest="from_step", metavar="STEP", required=True, help="the first step to repeat"
    )
    finished(rerun, run_rerun)
    finished(_about_one(parser.verb("forget", "forget a run that is over")), run_forget)
    return parser


def _about_one(parser: Parser) -> Parser:
    parser.add_argument("id", metavar="ID", help="the run's id")
    return parser


def _declare_approve(parser: Parser) -> None:
    _about_one(parser)
    parser.add_argument("step", metavar="STEP", help="the step that asks people")
    parser.add_argument("--reason", default="", help="why you approve; it is kept")
    binding(parser)
    finished(parser, run_approve)


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


def run_show(args: Namespace) -> int:
    """Show one run, with its steps if it has any."""
    from interlock.cli.connection import answer, connected, typed
    from interlock.wire.admission import Run
    from interlock.wire.workflows import RunWithSteps

    with connected(args) as client:
        found = client.call("GET", "workflow-runs", args.id)

    def tell(found: object) -> None:
        say_run(typed(found, Run))
        say_steps(typed(found, RunWithSteps).steps)

    return answer(args, found, tell)


def run_timeline(args: Namespace) -> int:
    """Show what happened to one run."""
    from interlock.cli.connection import answer, connected

    with connected(args) as client:
        timeline = client.get_run_timeline(args.id)
    return answer(args, timeline, lambda timeline: say_timeline(timeline.items))


def run_approve(args: Namespace) -> int:
    """Approve a step's job as it is shown here, or as `--job-hash` names it."""
    from interlock.cli.connection import answer, connected, typed
    from interlock.wire.workflows import RunWithSteps

    with connected(args) as client:
        run = typed(client.call("GET", "workflow-runs", args.id), RunWithSteps)
        job_id = next((each.job_id for each in run.steps if each.id == args.step), None)
        seen = args.hash or (shown_hash(client, args, job_id, "approving") if job_id else None)
        review = client.approve_step(args.id, args.step, reason=args.reason, job_hash=seen)
    return answer(args, review, lambda review: say(f"{safe(args.step)}: {review.outcome}"))


def run_rerun(args: Namespace) -> int:
    """Run it again from a step on."""
    from interlock.cli.connection import answer_call
    from interlock.wire.workflows import RerunBody, RunWithSteps

    def tell(run: RunWithSteps) -> None:
        say(f"{run.run_id} runs again from {args.from_step}")

    where, body = ("workflow-runs", args.id, "rerun"), RerunBody(from_step=args.from_step)
    return answer_call(args, "POST", *where, kind=RunWithSteps, tell=tell, body=body)


def run_forget(args: Namespace) -> int:
    """Forget a run that is over."""
    from interlock.cli.connection import answer_call
    from interlock.wire.workflows import RunWithSteps

    def tell(run: RunWithSteps) -> None:
        say(f"{run.run_id} is forgotten; it was {run.state}")

    return answer_call(args, "DELETE", "workflow-runs", args.id, kind=RunWithSteps, tell=tell)


def _nothing(args: Namespace) -> str:
    if args.state or args.workflow or args.cursor:
        return "no runs match; `interlock runs` lists them all"
    return "no runs yet; start one with `interlock run start WORKFLOW`"


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
        .column("STARTED", lambda run: when(run.started_at), optional=True)
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
        f"If the workflow has steps, they run by themselves: interlock run {run.run_id}",
        "If not, the program that does the work runs one of",
        f"  interlock run renew {run.run_id} --fence {run.fence}",
        f"  interlock run complete {run.run_id} --fence {run.fence} [--result JSON]",
        f"  interlock run fail {run.run_id} --fence {run.fence} --error TEXT",
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


def say_steps(steps: Sequence[RunStep]) -> None:
    """How far each step of a run came."""
    if not steps:
        return
    say("")
    (
        Table(steps)
        .column("STEP", lambda step: step.id)
        .column("STATE", lambda step: step.state)
        .column("JOB", lambda step: step.job_id or "-")
        .column("WHY", _why, flexible=True, optional=True)
        .say()
    )


def _why(step: RunStep) -> str:
    if step.kind == "approval" and step.state == "running":
        return f"people decide: interlock approval {step.job_id}"
    return step.why or "-"


def say_timeline(entries: Sequence[AuditEntry]) -> None:
    """What happened to a run, oldest first."""
    (
        Table(entries)
        .column("AT", lambda entry: exactly(entry.at))
        .column("WHO", lambda entry: entry.actor or "-", flexible=True)
        .column("DID", lambda entry: entry.action)
        .column("TO", lambda entry: entry.subject or "-")
        .say()
    )

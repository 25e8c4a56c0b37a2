"""`interlock workflows` and `workflow`: definitions of steps, and the progress of a run."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from interlock.cli.decisions import binding, shown_hash
from interlock.cli.exits import Exit, Failed
from interlock.cli.options import Parser, finished, paging, wants_json
from interlock.cli.output import (
    Table,
    counted,
    exactly,
    listed,
    painted,
    safe,
    say,
    say_json,
)
from interlock.cli.runs import ENDED

if TYPE_CHECKING:
    from interlock.sdk.client import Interlock
    from interlock.wire.approvals import Review
    from interlock.wire.events import AuditEntry
    from interlock.wire.workflows import RunStep, RunWithSteps, Workflow


_DONE = {"define": "is defined:", "show": "has", "delete": "is forgotten; it had"}


def say_workflows(workflows: Sequence[Workflow]) -> None:
    """A table of workflows."""

    def steps(workflow: Workflow) -> str:
        return listed([step.id for step in workflow.steps], "none: a run is a slot")

    (
        Table(workflows)
        .column("WORKFLOW", lambda workflow: workflow.id)
        .column("STEPS", steps, flexible=True)
        .say()
    )


def say_steps(verb: str, workflow: Workflow) -> None:
    """What a workflow's runs do, after it was defined, shown or deleted."""
    steps = workflow.steps
    say(f"{safe(workflow.id)} {_DONE[verb]} {counted(len(steps), 'step')}")
    if steps:
        (
            Table(steps)
            .column("STEP", lambda step: step.id)
            .column("KIND", lambda step: step.kind)
            .column("TOPIC", lambda step: step.topic or "-", flexible=True)
            .column("AFTER", lambda step: listed(step.depends_on), flexible=True)
            .say()
        )


def say_run_steps(run: RunWithSteps) -> None:
    """How far a run came, step by step."""
    state = ENDED.get(run.state, f"is {run.state}")
    say(f"{run.run_id} of {painted(safe(run.workflow), 'bold')} {state}")
    if not run.steps:
        say("it has no steps: it is a slot")
        return
    (
        Table(run.steps)
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


_EXAMPLE = "steps: [{id: draft, topic: report.draft}, {id: agree, kind: approval, depends_on: [draft]}]"
_VERBS_AND_FILE = f"""\
verbs:
  define ID FILE        say which steps its runs take
  show ID               the steps
  delete ID             forget it; runs under way go on
  run RUN               how far a run came, step by step
  timeline RUN          what happened to a run, oldest first
  approve RUN STEP      approve a step that asks people
  rerun RUN --from STEP run it again from a step
  forget RUN            forget a run that is over

a file of steps:
  {_EXAMPLE}
"""


def declare_workflows() -> Parser:
    """The options of `interlock workflows`."""
    parser = Parser(
        "interlock workflows",
        description="List workflows by id.",
        examples=("interlock workflows", "interlock workflow define nightly steps.yaml"),
    )
    paging(parser)
    return finished(parser, run_workflows)


def declare_workflow() -> Parser:
    """The options of `interlock workflow`."""
    parser = Parser(
        "interlock workflow",
        description="Define, show and delete workflows; show how far a run came, approve a step, repeat or forget it.",
        examples=(
            "interlock workflow define nightly steps.yaml",
            "interlock workflow run RUN_ID",
            "interlock workflow approve RUN_ID agree --reason 'as discussed'",
            "interlock workflow rerun RUN_ID --from send",
        ),
        more=_VERBS_AND_FILE,
    )
    verbs = ("define", "show", "delete", "run", "timeline", "approve", "rerun", "forget")
    parser.add_argument("verb", choices=verbs, metavar="VERB", help=", ".join(verbs))
    parser.add_argument("id", metavar="ID", help="the workflow's id, or the run's")
    parser.add_argument(
        "file", nargs="?", metavar="FILE|STEP", help="the steps, in YAML or JSON; or the step"
    )
    parser.add_argument("--from", dest="from_step", metavar="STEP", help="where to begin again")
    parser.add_argument("--reason", default="", help="why you approve; it is kept")
    binding(parser)
    return finished(parser, run_workflow)


def run_workflows(args: Namespace) -> int:
    """List workflows."""
    from interlock.cli.connection import answer_list
    from interlock.wire.workflows import Workflow

    return answer_list(
        args,
        "workflows",
        kind=Workflow,
        tell=say_workflows,
        command="interlock workflows",
        nothing="no workflows yet; define one with `interlock workflow define ID steps.yaml`",
    )


def run_workflow(args: Namespace) -> int:
    """Do one thing with one workflow or run."""
    from interlock.cli.connection import connected
    from interlock.wire.workflows import RerunBody

    steps = _steps(args) if args.verb == "define" else None
    if args.verb == "rerun" and not args.from_step:
        raise Failed("name the step to begin at: interlock workflow rerun RUN_ID --from STEP", Exit.USAGE)
    with connected(args) as client:
        if steps is not None:
            found = client.define_workflow(args.id, steps)
        elif args.verb == "show":
            found = client.workflow(args.id)
        elif args.verb == "delete":
            found = client.delete_workflow(args.id)
        elif args.verb == "run":
            found = client.call("GET", "workflow-runs", args.id)
        elif args.verb == "forget":
            found = client.call("DELETE", "workflow-runs", args.id)
        elif args.verb == "timeline":
            found = client.run_timeline(args.id)
        elif args.verb == "approve":
            found = _approve(client, args)
        else:
            found = client.call(
                "POST", "workflow-runs", args.id, "rerun", body=RerunBody(from_step=args.from_step)
            )
    if wants_json(args):
        say_json(found)
    else:
        _tell(args, found)
    return Exit.DONE


def _tell(args: Namespace, found: object) -> None:
    from interlock.cli.connection import typed
    from interlock.wire.approvals import Review
    from interlock.wire.workflows import RunWithSteps, Timeline, Workflow

    match args.verb:
        case "define" | "show" | "delete":
            say_steps(args.verb, typed(found, Workflow))
        case "run":
            say_run_steps(typed(found, RunWithSteps))
        case "timeline":
            say_timeline(typed(found, Timeline).items)
        case "forget":
            run = typed(found, RunWithSteps)
            say(f"{run.run_id} is forgotten; it was {run.state}")
        case "approve":
            say(f"{args.file}: {typed(found, Review).outcome}")
        case _:
            say(f"{typed(found, RunWithSteps).run_id} runs again from {args.from_step}")


def _approve(client: Interlock, args: Namespace) -> Review:
    """Approve a step's job as it is shown here, or as `--job-hash` names it."""
    from interlock.cli.connection import typed
    from interlock.wire.workflows import RunWithSteps

    step = _step(args)
    run = typed(client.call("GET", "workflow-runs", args.id), RunWithSteps)
    job_id = next((each.job_id for each in run.steps if each.id == step), None)
    seen = args.hash or (shown_hash(client, args, job_id, "approving") if job_id else None)
    return client.approve_step(args.id, step, reason=args.reason, job_hash=seen)


def _step(args: Namespace) -> str:
    if not args.file:
        raise Failed("name the step: interlock workflow approve RUN_ID STEP", Exit.USAGE)
    return str(args.file)


def _steps(args: Namespace) -> list[dict[str, Any]]:
    """The steps in a YAML or JSON file: a list, or an object with `steps`."""
    import yaml

    from interlock.cli.policy_files import read_text

    if not args.file:
        raise Failed("name the file with the steps: interlock workflow define ID steps.yaml", Exit.USAGE)
    text = read_text(args.file)
    try:
        read = yaml.load(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise Failed(f"{args.file} is neither YAML nor JSON: {error}", name="invalid_steps") from error
    steps: Any = cast("dict[str, Any]", read).get("steps") if isinstance(read, dict) else read
    if not isinstance(steps, list):
        raise Failed(f"{args.file} has no list of steps; write it like\n  {_EXAMPLE}", name="invalid_steps")
    return cast("list[dict[str, Any]]", steps)

"""`interlock workflows` and `workflow`: definitions of steps, and what became of a run's."""

from __future__ import annotations

from argparse import Namespace
from typing import Any, cast

from interlock.cli.exits import Exit, Failed
from interlock.cli.options import Parser, as_json, connecting, paging, wants_json


def declare_workflows() -> Parser:
    """The options of `interlock workflows`."""
    parser = Parser("interlock workflows", description="List workflows by id.")
    paging(parser)
    as_json(parser)
    connecting(parser)
    parser.set_defaults(run=run_workflows)
    return parser


def declare_workflow() -> Parser:
    """The options of `interlock workflow`."""
    parser = Parser(
        "interlock workflow",
        description="Define, show and delete workflows; show how far a run came, approve a step, repeat or forget it.",
        examples=(
            "interlock workflow define nightly steps.yaml",
            "interlock workflow run RUN_ID",
            "interlock workflow rerun RUN_ID --from send",
        ),
    )
    verbs = ("define", "show", "delete", "run", "timeline", "approve", "rerun", "forget")
    parser.add_argument("verb", choices=verbs, metavar="VERB", help=", ".join(verbs))
    parser.add_argument("id", metavar="ID", help="the workflow's id, or the run's")
    parser.add_argument(
        "file", nargs="?", metavar="FILE|STEP", help="the steps, in YAML or JSON; or the step"
    )
    parser.add_argument("--from", dest="from_step", metavar="STEP", help="where to begin again")
    parser.add_argument("--reason", default="", help="why you approve; it is kept")
    as_json(parser)
    connecting(parser)
    parser.set_defaults(run=run_workflow)
    return parser


def run_workflows(args: Namespace) -> int:
    """List workflows."""
    from interlock.cli.connection import connected
    from interlock.cli.output import say, say_json

    with connected(args) as client:
        page = client.workflows(limit=args.limit, cursor=args.cursor)
    if wants_json(args):
        say_json(page)
    elif page["items"]:
        for each in page["items"]:
            say(
                f"{each['id']}  {', '.join(step['id'] for step in each['steps']) or 'no steps: a run is a slot'}"
            )
    else:
        say("no workflows yet; define one with `interlock workflow define ID steps.yaml`")
    return Exit.DONE


def run_workflow(args: Namespace) -> int:
    """Do one thing with one workflow or run."""
    from interlock.cli.connection import connected
    from interlock.cli.output import say, say_json

    steps = _steps(args) if args.verb == "define" else None
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
            found = client.call(
                "POST",
                "workflow-runs",
                args.id,
                "steps",
                _step(args),
                "approve",
                body={"reason": args.reason},
            )
        else:
            found = client.call("POST", "workflow-runs", args.id, "rerun", body={"from_step": args.from_step})
    if wants_json(args):
        say_json(found)
    else:
        say(*_told(args, found))
    return Exit.DONE


def _told(args: Namespace, found: dict[str, Any]) -> list[str]:
    match args.verb:
        case "define" | "show" | "delete":
            steps: list[dict[str, Any]] = found["steps"]
            done = {"define": "is defined", "show": "has", "delete": "is forgotten; it had"}[args.verb]
            return [f"{found['id']} {done}: {len(steps)} steps", *(f"  {_step_line(step)}" for step in steps)]
        case "run":
            runs: list[dict[str, Any]] = found["steps"]
            lines = [
                f"  {step['id']}  {step['state']}  {step['job_id'] or '-'}  {step['why']}" for step in runs
            ]
            return [f"{found['run_id']}  {found['workflow']}  {found['state']}", *lines]
        case "timeline":
            entries: list[dict[str, Any]] = found["items"]
            return [
                f"{entry['at']}  {entry['actor']}  {entry['action']}  {entry['subject']}" for entry in entries
            ]
        case "forget":
            return [f"{found['run_id']} is forgotten; it was {found['state']}"]
        case "approve":
            return [f"{args.file}: {found['outcome']}"]
        case _:
            return [f"{found['run_id']} runs again from {args.from_step}"]


def _step_line(step: dict[str, Any]) -> str:
    needs: list[str] = step.get("depends_on") or []
    after = f"  after {', '.join(needs)}" if needs else ""
    return f"{step['id']}  {step.get('kind', 'worker')}  {step.get('topic') or ''}{after}"


def _step(args: Namespace) -> str:
    if not args.file:
        raise Failed("name the step: interlock workflow approve RUN_ID STEP", Exit.USAGE)
    return str(args.file)


def _steps(args: Namespace) -> list[dict[str, Any]]:
    """The steps in a YAML or JSON file: a list, or an object with `steps`."""
    from pathlib import Path

    import yaml

    if not args.file:
        raise Failed("name the file with the steps: interlock workflow define ID steps.yaml", Exit.USAGE)
    try:
        read = yaml.load(Path(args.file).read_text(), Loader=yaml.CSafeLoader)
    except (OSError, yaml.YAMLError) as error:
        raise Failed(f"{args.file} cannot be read: {error}", Exit.ERROR) from error
    steps: Any = cast("dict[str, Any]", read).get("steps") if isinstance(read, dict) else read
    if not isinstance(steps, list):
        raise Failed(f"{args.file} has no list of steps; see docs/howto/admit-runs.md", Exit.ERROR)
    return cast("list[dict[str, Any]]", steps)

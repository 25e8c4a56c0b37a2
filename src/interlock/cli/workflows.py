"""`interlock workflows` and `workflow …`: which steps the runs of a workflow take."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from interlock.cli.exits import Failed
from interlock.cli.options import Noun, Parser, finished, paging
from interlock.cli.output import Table, counted, listed, safe, say

if TYPE_CHECKING:
    from interlock.wire.workflows import Workflow


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


def _say_workflow(workflow: Workflow, what: str) -> None:
    """What a workflow's runs do, after it was defined, shown or deleted."""
    steps = workflow.steps
    say(f"{safe(workflow.id)} {what} {counted(len(steps), 'step')}")
    if steps:
        (
            Table(steps)
            .column("STEP", lambda step: step.id)
            .column("KIND", lambda step: step.kind)
            .column("TOPIC", lambda step: step.topic or "-", flexible=True)
            .column("AFTER", lambda step: listed(step.depends_on), flexible=True)
            .say()
        )


_EXAMPLE = """\
steps:
    - {id: draft, topic: report.draft}
    - {id: agree, kind: approval, depends_on: [draft]}"""
_FILE = f"""\
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
    """The options of `interlock workflow …`."""
    parser = Noun(
        "interlock workflow",
        description="Define, show and delete workflows. `interlock run …` starts and follows their runs.",
        examples=("interlock workflow define nightly steps.yaml", "interlock workflow nightly"),
        more=_FILE,
    )
    define = parser.verb("define", "say which steps its runs take", more=_FILE)
    define.add_argument("id", metavar="ID", help="the workflow's id")
    define.add_argument("file", metavar="FILE", help="the steps, in YAML or JSON")
    finished(define, run_define)
    show = parser.verb("show", "show its steps")
    show.add_argument("id", metavar="ID", help="the workflow's id")
    finished(show, run_show)
    delete = parser.verb("delete", "forget it; runs under way go on")
    delete.add_argument("id", metavar="ID", help="the workflow's id")
    finished(delete, run_delete)
    return parser


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


def run_define(args: Namespace) -> int:
    """Define one workflow."""
    from interlock.cli.connection import answer, connected

    steps = _steps(args)
    with connected(args) as client:
        workflow = client.define_workflow(args.id, steps)
    return answer(args, workflow, lambda workflow: _say_workflow(workflow, "is defined:"))


def run_show(args: Namespace) -> int:
    """Show one workflow."""
    from interlock.cli.connection import answer, connected

    with connected(args) as client:
        workflow = client.get_workflow(args.id)
    return answer(args, workflow, lambda workflow: _say_workflow(workflow, "has"))


def run_delete(args: Namespace) -> int:
    """Delete one workflow."""
    from interlock.cli.connection import answer, connected

    with connected(args) as client:
        workflow = client.delete_workflow(args.id)
    return answer(args, workflow, lambda workflow: _say_workflow(workflow, "is forgotten; it had"))


def _steps(args: Namespace) -> list[dict[str, Any]]:
    """The steps in a YAML or JSON file: a list, or an object with `steps`."""
    import yaml

    from interlock.cli.policy_files import read_text

    text = read_text(args.file)
    try:
        read = yaml.load(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise Failed(f"{args.file} is neither YAML nor JSON: {error}", name="invalid_steps") from error
    steps: Any = cast("dict[str, Any]", read).get("steps") if isinstance(read, dict) else read
    if not isinstance(steps, list):
        raise Failed(f"{args.file} has no list of steps; write it like\n  {_EXAMPLE}", name="invalid_steps")
    return cast("list[dict[str, Any]]", steps)

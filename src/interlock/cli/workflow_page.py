"""Workflows, and how far their runs came, as people read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.cli.output import Column, painted, say, say_table
from interlock.cli.run_page import ENDED
from interlock.cli.wording import counted, exactly, listed, moment, safe

_DONE = {"define": "is defined:", "show": "has", "delete": "is forgotten; it had"}


def say_workflows(workflows: Sequence[Mapping[str, Any]]) -> None:
    """A table of workflows."""
    columns = (Column("WORKFLOW"), Column("STEPS", flexible=True))
    rows = ((safe(each["id"]), [str(step["id"]) for step in each["steps"]]) for each in workflows)
    say_table(columns, ((name, listed(steps, "none: a run is a slot")) for name, steps in rows))


def say_steps(verb: str, workflow: Mapping[str, Any]) -> None:
    """What a workflow's runs do, after it was defined, shown or deleted."""
    steps: Sequence[Mapping[str, Any]] = workflow["steps"]
    say(f"{safe(workflow['id'])} {_DONE[verb]} {counted(len(steps), 'step')}")
    if not steps:
        return
    columns = (Column("STEP"), Column("KIND"), Column("TOPIC", flexible=True), Column("AFTER", flexible=True))
    say_table(
        columns,
        (
            (
                safe(step["id"]),
                step.get("kind", "worker"),
                safe(step.get("topic") or "-"),
                listed(step.get("depends_on") or ()),
            )
            for step in steps
        ),
    )


def say_run_steps(run: Mapping[str, Any]) -> None:
    """How far a run came, step by step."""
    state = ENDED.get(run["state"], f"is {run['state']}")
    say(f"{run['run_id']} of {painted(safe(run['workflow']), 'bold')} {state}")
    steps: Sequence[Mapping[str, Any]] = run["steps"]
    if not steps:
        say("it has no steps: it is a slot")
        return
    columns = (Column("STEP"), Column("STATE"), Column("JOB"), Column("WHY", flexible=True, optional=True))
    say_table(
        columns,
        ((safe(step["id"]), step["state"], step["job_id"] or "-", safe(_why(step))) for step in steps),
    )


def _why(step: Mapping[str, Any]) -> str:
    if step["kind"] == "approval" and step["state"] == "running":
        return f"people decide: interlock approval {step['job_id']}"
    return str(step["why"] or "-")


def say_timeline(entries: Sequence[Mapping[str, Any]]) -> None:
    """What happened to a run, oldest first."""
    columns = (Column("AT"), Column("WHO", flexible=True), Column("DID"), Column("TO"))
    say_table(
        columns,
        (
            (
                exactly(moment(entry["at"])),
                safe(entry["actor"] or "-"),
                safe(entry["action"]),
                safe(entry["subject"]),
            )
            for entry in entries
        ),
    )

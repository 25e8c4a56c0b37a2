"""Policies, what they say and what they would change, as people read it."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from interlock.cli.options import wants_json
from interlock.cli.output import (
    STATE_STYLES,
    Cell,
    Column,
    painted,
    say,
    say_fields,
    say_json,
    say_table,
    warn,
)
from interlock.cli.wording import counted, exactly, lasting, listed, pretty, safe, safe_lines, when

if TYPE_CHECKING:
    from interlock.sdk.models import Change, Evaluation, Policy, Simulation


def say_in_force(policy: Policy, *, as_json: bool) -> None:
    """What was put in force, and the way back."""
    if as_json:
        from msgspec import to_builtins

        say_json(to_builtins(policy))
        return
    say(f"in force: {policy.snapshot}")
    if policy.previous and policy.previous != policy.snapshot:
        say(
            f"before:   {policy.previous}  (back to it: interlock policy rollback {policy.previous})",
            "Requests asked under the policy before may need `interlock refresh`; see `interlock approvals`.",
        )


def say_policy(found: Mapping[str, Any], *, as_json: bool) -> None:
    """A policy's text alone on stdout, so that it can be kept; what is known about it on stderr."""
    if as_json:
        say_json(found)
        return
    moment = found.get("activated_at") or found.get("created_at")
    if moment is None:
        warn(
            "no policy is in force: everything is denied; put one in force with `interlock policy apply FILE`"
        )
        return
    by = safe(str(found.get("activated_by") or found.get("created_by")))
    warn(f"# {found['snapshot']}, by {by}, {exactly(datetime.fromisoformat(moment))}")
    source: str = found.get("source") or "\n".join(pretty(found["document"])) + "\n"
    if sys.stdout.isatty():
        say(*safe_lines(source))
    else:
        sys.stdout.write(source)  # to be kept: exactly as it was applied


def say_evaluation(evaluation: Evaluation, *, as_json: bool) -> None:
    """What would happen, and every rule that was asked on the way."""
    if as_json:
        from msgspec import to_builtins

        say_json(to_builtins(evaluation))
        return
    for missed in evaluation.trail:
        say(painted(f"  no   {safe(missed.rule)}: {safe(missed.why or 'it did not match')}", "dim"))
    word = painted(evaluation.decision, STATE_STYLES.get(evaluation.decision, ""))
    said = evaluation.reason if evaluation.reason != f"rule {evaluation.rule!r} matched" else None
    reason = safe(said) if said else "" if evaluation.rule else "no rule matched"
    deciding = ": ".join(filter(None, [safe(evaluation.rule or ""), reason]))
    say(f"  {'fail' if evaluation.failure else 'yes '} {deciding}", "", f"{word}{_afterwards(evaluation)}")
    if evaluation.approval:
        _say_requirement(evaluation.approval)
    if evaluation.mode == "observe":
        say(painted("this policy only observes: the action would be released, and this recorded", "yellow"))


def say_simulation(simulation: Simulation, *, as_json: bool) -> None:
    """What a candidate would have changed."""
    if as_json:
        from msgspec import to_builtins

        say_json(to_builtins(simulation))
        return
    if simulation.changes:
        columns = (
            Column("ID"),
            Column("TOPIC", flexible=True),
            Column("BEFORE"),
            Column("AFTER"),
            Column("RULE"),
            Column("DIFFERS IN", flexible=True),
        )
        say_table(columns, [_change(change) for change in simulation.changes])
        _say_failures(simulation)
        say("")
    jobs = counted(simulation.examined, "job")
    say(f"{jobs} examined: {len(simulation.changes)} would change, {simulation.unchanged} would not")


def _say_failures(simulation: Simulation) -> None:
    """Which rules cannot be asked about some of the jobs, and why; each once."""
    failing: dict[tuple[str, str], str] = {}
    for change in simulation.changes:
        if change.after.failure is not None:
            failing.setdefault((change.after.rule or "", change.after.failure.why), change.job_id)
    for (rule, why), job_id in failing.items():
        say(painted(f"rule {safe(rule)} fails, which denies (first on {job_id}): {safe(why)}", "yellow"))


def say_observed(page: Mapping[str, Any], args: Namespace) -> None:
    """Jobs that were released only because the policy was observing."""
    from interlock.cli.connection import more, typed
    from interlock.sdk.models import Job

    if wants_json(args):
        say_json(page)
        return
    if not page["items"]:
        say(
            "nothing observed; a policy with `mode: observe` releases each job and records what it would stop"
        )
        return
    columns = (
        Column("ID"),
        Column("WOULD BE"),
        Column("RULE"),
        Column("TOPIC", flexible=True),
        Column("SUBMITTED"),
    )
    rows = [
        (job.id, _decision(job.decision.observed or "-"), safe(job.decision.rule or "-"), safe(job.topic),
         when(job.submitted_at))
        for job in typed(page["items"], list[Job])
        if job.decision
    ]  # fmt: skip
    say_table(columns, rows)
    say(*filter(None, [more(page, "interlock policy observed", args)]))


def say_snapshots(page: Mapping[str, Any], active: str, args: Namespace) -> None:
    """Every policy that was ever in force."""
    from interlock.cli.connection import more

    if wants_json(args):
        say_json(page)
        return
    if not page["items"]:
        say("no policy yet; put one in force with `interlock policy apply FILE`")
        return
    columns = (Column("SNAPSHOT"), Column("MADE"), Column("BY", flexible=True), Column("RULES"), Column(""))
    say_table(
        columns,
        [
            (
                each["snapshot"],
                when(datetime.fromisoformat(each["created_at"])),
                safe(each["created_by"]),
                str(len(each["document"].get("rules", ()))),
                Cell("in force", "green") if each["snapshot"] == active else "",
            )
            for each in page["items"]
        ],
    )
    say(*filter(None, [more(page, "interlock policy snapshots", args)]))


def _afterwards(evaluation: Evaluation) -> str:
    return f", and within the rate: {evaluation.then}" if evaluation.then else ""


def _change(change: Change) -> tuple[str | Cell, ...]:
    rule = safe(change.after.rule or "default")
    return (
        change.job_id,
        safe(change.topic),
        _decision(change.before.decision),
        _decision(change.after.decision),
        rule,
        listed(change.differs),
    )


def _decision(word: str) -> Cell:
    return Cell(word, STATE_STYLES.get(word, ""))


def _say_requirement(asked: Mapping[str, Any]) -> None:
    """What people would have to do."""
    people = counted(asked["quorum"], "person", "different people")
    whom = f" of {listed(asked['groups'])}" if asked["groups"] else " with the role review"
    own = "the submitter may be one" if asked["self_approval"] else "never the submitter"
    steps = [
        f"after {lasting(step['after'])} also {listed(step['groups'])}" for step in asked.get("escalate", ())
    ]
    say_fields(
        [
            ("who decides", f"{people}{whom}; {own}"),
            ("within", f"{lasting(asked['expires_in'])}, then {asked['on_expiry']}"),
            ("escalation", "; ".join(steps)),
            ("binding", asked["binding"]),
        ]
    )

"""`interlock policy …`: check a policy, activate it, query it, test it, and roll back."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interlock.cli.exits import Exit, Failed
from interlock.cli.options import (
    Noun,
    Parser,
    as_json,
    described,
    describing,
    finished,
    paging,
    quietly,
    wants_json,
)
from interlock.cli.output import (
    STATE_STYLES,
    Cell,
    Table,
    counted,
    exactly,
    lasting,
    listed,
    painted,
    pretty,
    safe,
    safe_lines,
    say,
    say_fields,
    say_json,
    warn,
    when,
)
from interlock.cli.policy_files import check_policy_file, located, read_policy, read_text, tested, warn_of
from interlock.cli.values import count_to, is_topic, json_value, topic

if TYPE_CHECKING:
    from interlock.sdk.client import Interlock
    from interlock.wire.jobs import Job
    from interlock.wire.policy import Evaluation, Policy, Requirement, Simulation


_SIMULATED_AT_ONCE = 100
_SIMULATED_MAX = 10_000


def say_in_force(policy: Policy) -> None:
    """What was put in force, and the way back."""
    say(f"in force: {policy.snapshot}")
    if policy.previous and policy.previous != policy.snapshot:
        say(
            f"before:   {policy.previous}  (back to it: interlock policy rollback {policy.previous})",
            "Requests asked under the policy before may need `interlock refresh`; see `interlock approvals`.",
        )


def say_policy(found: Policy) -> None:
    """A policy's text alone on stdout, so that it can be kept; what is known about it on stderr."""
    moment = found.activated_at or found.created_at
    if moment is None:
        warn(
            "no policy is in force: everything is denied; put one in force with `interlock policy apply FILE`"
        )
        return
    by = safe(found.activated_by or found.created_by or "-")
    warn(f"# {found.snapshot}, by {by}, {exactly(moment)}")
    source = found.source or "\n".join(pretty(found.document)) + "\n"
    if sys.stdout.isatty():
        say(*safe_lines(source))
    else:
        sys.stdout.write(source)  # to be kept: exactly as it was applied


def say_evaluation(evaluation: Evaluation) -> None:
    """What would happen, and every rule that was asked on the way."""
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


def say_simulation(simulation: Simulation) -> None:
    """What a candidate would have changed."""
    if simulation.changes:
        (
            Table(simulation.changes)
            .column("ID", lambda change: change.job_id)
            .column("TOPIC", lambda change: change.topic, flexible=True)
            .column("BEFORE", lambda change: _decision(change.before.decision))
            .column("AFTER", lambda change: _decision(change.after.decision))
            .column("RULE", lambda change: change.after.rule or "default")
            .column("DIFFERS IN", lambda change: listed(change.differs), flexible=True)
            .say()
        )
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


def say_observed(jobs: Sequence[Job]) -> None:
    """Jobs that were released only because the policy was observing."""
    (
        Table((job, job.decision) for job in jobs if job.decision)
        .column("ID", lambda pair: pair[0].id)
        .column("WOULD BE", lambda pair: _decision(pair[1].observed or "-"))
        .column("RULE", lambda pair: pair[1].rule or "-")
        .column("TOPIC", lambda pair: pair[0].topic, flexible=True)
        .column("SUBMITTED", lambda pair: when(pair[0].submitted_at), optional=True)
        .say()
    )


def say_snapshots(snapshots: Sequence[Policy], active: str) -> None:
    """Every policy that was ever in force."""
    (
        Table(snapshots)
        .column("SNAPSHOT", lambda each: each.snapshot)
        .column("MADE", lambda each: when(each.created_at))
        .column("BY", lambda each: each.created_by or "-", flexible=True)
        .column("RULES", lambda each: str(len(each.document.get("rules", ()))))
        .column("", lambda each: Cell("in force", "green") if each.snapshot == active else "")
        .say()
    )


def _afterwards(evaluation: Evaluation) -> str:
    return f", and within the rate: {evaluation.then}" if evaluation.then else ""


def _decision(word: str) -> Cell:
    return Cell(word, STATE_STYLES.get(word, ""))


def _say_requirement(asked: Requirement) -> None:
    """What people would have to do."""
    people = counted(asked.quorum, "person", "different people")
    whom = f" of {listed(asked.groups)}" if asked.groups else " with the role review"
    own = "the submitter may be one" if asked.self_approval else "never the submitter"
    steps = [f"after {lasting(step.after)} also {listed(step.groups)}" for step in asked.escalate]
    say_fields(
        [
            ("who decides", f"{people}{whom}; {own}"),
            ("within", f"{lasting(asked.expires_in)}, then {asked.on_expiry}"),
            ("escalation", "; ".join(steps)),
            ("binding", asked.binding),
        ]
    )


def declare_policy() -> Parser:
    """The options of `interlock policy …`."""
    parser = Noun(
        "interlock policy",
        description="Check, apply, query and test a policy, and go back to an earlier one.",
        examples=(
            "interlock policy check policy.yaml",
            "interlock policy test cases.yaml --policy policy.yaml",
            "interlock policy simulate policy.yaml --last 500",
            "interlock policy apply policy.yaml",
            "interlock policy evaluate finance.payment.execute --payload '{\"amount_cents\": 20000}'",
        ),
        otherwise=lambda word: "show" if word.startswith("sha256:") else word,
    )
    for name, declare, run, text in (
        ("check", _declare_file, run_check, "find what is wrong with a policy file; needs no store"),
        ("apply", _declare_apply, run_apply, "put a policy file in force"),
        ("show", _declare_show, run_show, "print the policy in force, or an earlier one"),
        ("evaluate", _declare_evaluate, run_evaluate, "show what would happen to an action, and why"),
        ("simulate", _declare_simulate, run_simulate, "show what a policy file would change"),
        ("test", _declare_test, run_test, "run a file of cases like a test runner"),
        ("observed", paging, run_observed, "list what `mode: observe` let pass"),
        ("snapshots", paging, run_snapshots, "list every policy that was ever in force"),
        ("rollback", _declare_rollback, run_rollback, "put an earlier policy back in force"),
    ):
        verb = parser.verb(name, text)
        declare(verb)
        if name == "check":
            as_json(verb)
            verb.set_defaults(run=run)
        else:
            finished(verb, run)
    return parser


def run_check(args: Namespace) -> int:
    """Read a policy file, and say what it is."""
    from interlock.rooms.policy.language import snapshot_id

    _, (document, warnings) = check_policy_file(args.file)
    snapshot, rules = snapshot_id(document), len(document.rules)
    if wants_json(args):
        mode, default = document.mode.value, document.default.value
        told = {"snapshot": snapshot, "mode": mode, "default": default, "rules": rules}
        say_json(told | {"warnings": located(warnings)})
    else:
        warn_of(args.file, warnings)
        say(
            f"{args.file} is a policy: {counted(rules, 'rule')}, default {document.default.value}, "
            f"mode {document.mode.value}",
            f"snapshot {snapshot}",
        )
    return Exit.DONE


def run_apply(args: Namespace) -> int:
    """Put a policy file in force."""
    from interlock.cli.connection import answer, connected

    text, (_, warnings) = check_policy_file(args.file)
    if not wants_json(args):
        warn_of(args.file, warnings)
    with connected(args) as client:
        return answer(args, client.apply_policy(text, expecting=args.expecting), say_in_force)


def run_rollback(args: Namespace) -> int:
    """Put an earlier policy in force again."""
    from interlock.cli.connection import answer, connected

    with connected(args) as client:
        return answer(args, client.roll_back_policy(args.snapshot), say_in_force)


def run_show(args: Namespace) -> int:
    """Print a policy so that it can be put into a file."""
    from interlock.cli.connection import answer_call
    from interlock.wire.policy import Policy

    where = ("policy", "snapshots", args.snapshot) if args.snapshot else ("policy",)
    return answer_call(args, "GET", *where, kind=Policy, tell=say_policy)


def run_evaluate(args: Namespace) -> int:
    """Ask what would happen to an action."""
    from interlock.cli.connection import answer, connected

    job = _asked(args)
    if args.policy:
        job["policy"], _ = read_policy(args.policy)
    with connected(args) as client:
        return answer(args, client.evaluate_policy(job), say_evaluation)


def run_simulate(args: Namespace) -> int:
    """Compare a policy file with the last jobs, some of them at a time."""
    from interlock.cli.connection import answer, connected
    from interlock.cli.progress import progress_of

    text, _ = read_policy(args.file)
    with progress_of(args, "policy simulate") as progress, connected(args) as client:
        found = _simulated(client, text, args.last, progress)
    return answer(args, found, say_simulation)


def _simulated(
    client: Interlock, text: str, last: int, tell: Callable[[str, int, int], object]
) -> Simulation:
    """What a policy would change for the last jobs. It tells of each portion, which has a time of its own."""
    import msgspec

    tell("jobs compared", 0, last)
    found = client.simulate_policy(text, last=min(last, _SIMULATED_AT_ONCE))
    while found.next_cursor and found.examined < last:
        tell("jobs compared", found.examined, last)
        portion = min(last - found.examined, _SIMULATED_AT_ONCE)
        older = client.simulate_policy(text, last=portion, cursor=found.next_cursor)
        found = msgspec.structs.replace(
            found,
            examined=found.examined + older.examined,
            unchanged=found.unchanged + older.unchanged,
            changes=(*found.changes, *older.changes),
            next_cursor=older.next_cursor,
        )
    return found


def run_test(args: Namespace) -> int:
    """Run a file of cases."""
    return tested(args)


def run_observed(args: Namespace) -> int:
    """List what enforcement would have stopped."""
    from interlock.cli.connection import answer_list
    from interlock.wire.jobs import Job

    return answer_list(
        args,
        "policy",
        "observed",
        kind=Job,
        tell=say_observed,
        command="interlock policy observed",
        nothing="nothing observed; a policy with `mode: observe` releases each job and records what it would stop",
    )


def run_snapshots(args: Namespace) -> int:
    """List every policy that was ever in force."""
    from interlock.cli.connection import answer_page, connected, listing, more
    from interlock.wire.policy import Policy

    with connected(args) as client:
        page = listing(client, "policy", "snapshots", limit=args.limit, cursor=args.cursor, query={})
        active = client.get_policy().snapshot

    def tell(snapshots: Sequence[Policy]) -> None:
        say_snapshots(snapshots, active)

    nothing = "no policy yet; put one in force with `interlock policy apply FILE`"
    following = more(page, "interlock policy snapshots", args)
    return answer_page(args, page, kind=Policy, tell=tell, nothing=nothing, following=following)


def _declare_file(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="YAML or JSON; - is stdin")


def _declare_apply(parser: Parser) -> None:
    _declare_file(parser)
    parser.add_argument(
        "--expecting", metavar="SNAPSHOT", help="only if this one (sha256:…) is in force now; else exit 1"
    )


def _declare_show(parser: Parser) -> None:
    parser.add_argument(
        "snapshot", metavar="SNAPSHOT", nargs="?", help="sha256:… (default: the one in force)"
    )


def _declare_rollback(parser: Parser) -> None:
    parser.add_argument(
        "snapshot", metavar="SNAPSHOT", help="sha256:…, as `interlock policy snapshots` lists"
    )


def _declare_simulate(parser: Parser) -> None:
    _declare_file(parser)
    parser.add_argument(
        "--last",
        type=count_to(_SIMULATED_MAX),
        metavar="N",
        default=200,
        help="how many jobs to look at (default 200)",
    )
    quietly(parser)


def _declare_test(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="a file of cases: given a job, expect a decision")
    parser.add_argument("--policy", metavar="FILE", help="test this policy (default: the one in force)")


def _declare_evaluate(parser: Parser) -> None:
    parser.add_argument(
        "about",
        metavar="TOPIC|FILE",
        nargs="?",
        help="what kind of action, or a job as JSON as submit takes it",
    )
    parser.add_argument("--topic", type=topic, help="what kind of action")
    parser.add_argument("--payload", type=json_value, metavar="JSON|@FILE|-", help="the action itself")
    describing(parser)
    parser.add_argument("--actor", metavar="NAME", help="ask on behalf of this agent (default: yourself)")
    parser.add_argument("--policy", metavar="FILE", help="ask this policy (default: the one in force)")


def _asked(args: Namespace) -> dict[str, Any]:
    """The job in question: from the file, and over it what the options say."""
    job: dict[str, Any] = {}
    if args.about and _is_topic(args.about):
        job["topic"] = args.about
    elif args.about:
        import msgspec

        try:
            job = msgspec.json.decode(read_text(args.about), type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise Failed(f"{args.about} is not a job as a JSON object: {error}") from None
    job |= described(args)
    if args.topic:
        job["topic"] = args.topic
    if args.payload is not None:
        job["payload"] = args.payload
    if args.actor:
        job["actor"] = {"id": args.actor}
    if "topic" not in job:
        raise Failed("name the action: a TOPIC, or a FILE with the fields of submit", Exit.USAGE)
    return job


def _is_topic(text: str) -> bool:
    """Whether this is a topic. What is a file, or is called like one, is never taken for anything else."""
    return is_topic(text) and not text.endswith((".json", ".yaml", ".yml")) and not Path(text).exists()

"""`interlock leases` and `lease …`: take a resource, keep it, and hand it over with a checkpoint."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal

from interlock.cli.exits import Exit, Failed
from interlock.cli.options import Noun, Parser, finished, in_session, paging, session_of, wants_json
from interlock.cli.output import (
    Cell,
    Table,
    exactly,
    painted,
    pretty,
    safe,
    say,
    say_fields,
    say_json,
    when,
)
from interlock.cli.values import json_value, seconds, some_seconds

if TYPE_CHECKING:
    from datetime import datetime

    from interlock.sdk.calls import Sent
    from interlock.wire.leases import Checkpoint, Lease, Predecessor

_STYLES: Mapping[str, str] = {
    "claimed": "cyan",
    "leased": "green",
    "applying": "blue",
    "waiting_on_review": "yellow",
    "conflict_detected": "red",
    "stale": "red",
}
_REST = {"checkpoint": " --done JSON"}
_PARTS = ("done", "partial", "evidence", "validation", "open_questions")


def say_leases(leases: Sequence[Lease]) -> None:
    """A table of leases."""
    (
        Table(leases)
        .column("ID", lambda lease: lease.lease_id)
        .column("RESOURCE", lambda lease: lease.resource, flexible=True)
        .column("OWNER", _owner, flexible=True, optional=True)
        .column("STATE", lease_state)
        .column("UNTIL", lambda lease: when(lease.ended_at or lease.expires_at))
        .column("PURPOSE", lambda lease: lease.purpose or "-", flexible=True, optional=True)
        .say()
    )


def say_lease(lease: Lease) -> None:
    """Everything about one lease, and how far its owner got."""
    say(painted(safe(lease.resource), "bold"), "")
    say_fields(
        [
            ("lease", lease.lease_id),
            ("state", lease_state(lease)),
            ("owner", _owner(lease)),
            ("purpose", safe(lease.purpose)),
            ("mode", lease.mode),
            ("fence", str(lease.fence or "")),
            ("since", _at(lease.since)),
            ("until", "" if lease.ended_at else _at(lease.expires_at)),
            ("ended", _at(lease.ended_at) if lease.ended_at else ""),
            ("handed to", safe(lease.handed_to or "")),
            ("conflict", safe(lease.conflict_id or "")),
            ("before", _before(lease.predecessor)),
        ]
    )
    say_checkpoint(lease.checkpoint)


def say_going_on(lease: Lease) -> None:
    """What its owner does next."""
    named = f"{lease.lease_id} --fence {lease.fence}"
    session = f" --session {quote(lease.session)}" if lease.session else ""
    verbs = ("renew", "checkpoint", "release")
    say(
        "",
        "to go on, one of",
        *(f"  interlock lease {verb} {named}{session}{_REST.get(verb, '')}" for verb in verbs),
    )


def say_checkpoint(checkpoint: Checkpoint | None) -> None:
    """Everything that one checkpoint says."""
    if checkpoint is None:
        return
    head = f"checkpoint {checkpoint.number} by {safe(checkpoint.by or '-')}, {when(checkpoint.at)}"
    say("", painted(head, "bold"))
    for part in _PARTS:
        value = getattr(checkpoint, part)
        if value is not None:
            say(painted(part, "dim"), *(f"  {line}" for line in pretty(value)))


def lease_state(lease: Lease) -> Cell:
    return Cell(lease.state, _STYLES.get(lease.state, "dim"))


def _owner(lease: Lease) -> str:
    session = f" (session {safe(lease.session)})" if lease.session else ""
    return f"{safe(lease.owner)}{session}"


def _at(at: datetime | None) -> str:
    return f"{when(at)} ({exactly(at)})"


def _before(predecessor: Predecessor | None) -> str:
    if predecessor is None:
        return ""
    return f"{safe(predecessor.owner)}, {predecessor.ended} {when(predecessor.ended_at)}"


REASONS = ("waiting_on_review", "paused_by_policy")
PARTS = ("partial", "evidence", "validation", "open_questions")
_MEANINGS = ("what is half done", "what shows it", "how it was checked", "what is not clear yet")
_VERBS = (
    ("renew", "keep it for another period"),
    ("suspend", "wait for a person without renewing"),
    ("resume", "go on after a suspension"),
    ("handoff", "hand it to one principal, or to the next one that acquires it"),
    ("release", "give it back"),
    ("check", "tell whether a fence is current"),
)


def declare_lease() -> Parser:
    """The options of `interlock lease …`."""
    parser = Noun(
        "interlock lease",
        description="Take a resource, keep it, and hand it over. The next holder gets the last checkpoint.",
        examples=(
            "interlock lease acquire repo:billing/invoice.py --ttl 10m --purpose 'rename a field'",
            "interlock lease acquire 'repo:billing/**' --wait 2m",
            "interlock lease checkpoint lse_… --fence 17 --done '[\"step 1\"]'",
            "interlock lease handoff lse_… --fence 17 --to mia",
        ),
    )
    _declare_acquire(parser.verb("acquire", "take a resource; /** takes everything under it"))
    _showing(parser.verb("show", "show one lease, and its last checkpoint"))
    _saving(
        parser.verb("checkpoint", "record the progress of the work; without --done, show what was recorded")
    )
    for name, summary in _VERBS:
        _declare_verb(parser.verb(name, summary), name)
    return parser


def declare_leases() -> Parser:
    """The options of `interlock leases`."""
    parser = Parser(
        "interlock leases",
        description="List leases, newest first.",
        examples=("interlock leases --live", "interlock leases --resource repo:billing/invoice.py --json"),
    )
    _listing(parser)
    return parser


def run_acquire(args: Namespace) -> int:
    """Take a resource."""
    from interlock.wire.leases import AcquireLeaseBody

    body = AcquireLeaseBody(
        resource=args.resource,
        purpose=args.purpose,
        mode="shared" if args.shared else "exclusive",
        ttl_seconds=args.ttl,
        wait_seconds=args.wait,
        session=session_of(args),
    )
    return _told(args, "POST", ("leases",), body, taken=True)


def run_list(args: Namespace) -> int:
    """List leases."""
    from interlock.cli.connection import answer_list
    from interlock.wire.leases import Lease

    query = {"resource": args.resource, "owner": args.owner, "live": "true" if args.live else None}
    none = "no leases match" if any((*query.values(), args.cursor)) else "no leases yet"
    return answer_list(
        args,
        "leases",
        kind=Lease,
        tell=say_leases,
        command=f"interlock leases{' --live' if args.live else ''}",
        nothing=f"{none}; take one with `interlock lease acquire RESOURCE`",
        query=query,
        options={**query, "live": None},
    )


def run_show(args: Namespace) -> int:
    """Show one lease."""
    return _told(args, "GET", ("leases", args.id), None)


def run_verb(args: Namespace) -> int:
    """Renew, suspend, resume, hand off or release."""
    body: dict[str, Any] = {"fence": args.fence, "session": session_of(args)}
    for name in ("progress", "reason", "to", "checkpoint"):
        value = getattr(args, name, None)
        if value is not None:
            body[name] = value
    return _told(args, "POST", ("leases", args.id, args.verb), body)


def run_check(args: Namespace) -> int:
    """Tell a sink whether a fence is current: 0 if so, 3 if not."""
    from interlock.cli.connection import connected, typed
    from interlock.wire.leases import CheckedFence, CheckFenceBody

    with connected(args) as client:
        answer = client.call("POST", "leases", args.id, "check", body=CheckFenceBody(fence=args.fence))
    checked = typed(answer, CheckedFence)
    if wants_json(args):
        say_json(answer)
    elif checked.current:
        say(f"fence {args.fence} is current")
    else:
        say(f"fence {args.fence} is not current: the lease is {checked.state}; write nothing under it")
    return Exit.DONE if checked.current else Exit.DENIED


def run_checkpoint(args: Namespace) -> int:
    """Save a checkpoint, or show those there are."""
    from interlock.wire.leases import CheckpointBody

    if args.done is None:
        return _show_checkpoints(args)
    if args.fence is None:
        raise Failed("pass the lease's fence with --fence; acquiring it printed it", Exit.USAGE)
    parts = {part: getattr(args, part) for part in PARTS}
    body = CheckpointBody(fence=args.fence, session=session_of(args), done=args.done, **parts)
    return _told(args, "POST", ("leases", args.id, "checkpoint"), body)


def _show_checkpoints(args: Namespace) -> int:
    from interlock.cli.connection import answer_call
    from interlock.wire.leases import Checkpoints

    def tell(found: Checkpoints) -> None:
        for checkpoint in found.items:
            say_checkpoint(checkpoint)
        if not found.items:
            say(
                f"no checkpoint yet; record one with `interlock lease checkpoint {args.id} --fence N --done JSON`"
            )

    return answer_call(args, "GET", "leases", args.id, "checkpoints", kind=Checkpoints, tell=tell)


def _told(
    args: Namespace,
    method: Literal["GET", "POST"],
    segments: tuple[str, ...],
    body: Sent | None,
    *,
    taken: bool = False,
) -> int:
    from interlock.cli.connection import answer, connected, typed
    from interlock.wire.leases import AcquireLeaseBody, Lease

    def tell(found: object) -> None:
        lease = typed(found, Lease)
        say_lease(lease)
        if taken:
            say_going_on(lease)

    wait = body.wait_seconds if isinstance(body, AcquireLeaseBody) else 0
    with connected(args) as client:
        say_waiting = client.session.says(f"the lease on {args.resource}", wait) if wait else None
        found = client.call(method, *segments, body=body, hold_seconds=wait, say=say_waiting)
    return answer(args, found, tell)


def _declare_acquire(parser: ArgumentParser) -> None:
    parser.add_argument(
        "resource", metavar="RESOURCE", help="any name; repo:billing/** is everything under it"
    )
    parser.add_argument(
        "--ttl", type=some_seconds, default=60, metavar="60s", help="for how long (default 60s)"
    )
    parser.add_argument("--wait", type=seconds, default=0, metavar="0s", help="wait in line this long")
    parser.add_argument("--purpose", default="", help="what for; others see it")
    parser.add_argument(
        "--shared", action="store_true", help="share it with other callers that pass --shared"
    )
    _finish(parser, run_acquire)


def _declare_verb(parser: ArgumentParser, verb: str) -> None:
    parser.add_argument("id", metavar="ID", help="the lease's id")
    parser.add_argument("--fence", type=int, required=True, metavar="N", help="the lease's fence")
    if verb == "renew":
        parser.add_argument("--progress", type=json_value, metavar="JSON", help="what has changed since")
    if verb == "suspend":
        parser.add_argument("--reason", choices=REASONS, default=REASONS[0], help=f"(default {REASONS[0]})")
    if verb == "handoff":
        parser.add_argument(
            "--to",
            metavar="NAME",
            help="the principal that it is kept for (default: the next one that acquires it)",
        )
        parser.add_argument(
            "--checkpoint", type=json_value, metavar="JSON", help="what the next holder starts from"
        )
    parser.set_defaults(verb=verb)
    _finish(parser, run_check if verb == "check" else run_verb, session=verb != "check")


def _listing(parser: ArgumentParser) -> None:
    parser.add_argument("--resource", help="only of this resource")
    parser.add_argument("--owner", help="only of this owner")
    parser.add_argument("--live", action="store_true", help="only those that have not ended")
    paging(parser)
    _finish(parser, run_list, session=False)


def _showing(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the lease's id")
    _finish(parser, run_show, session=False)


def _saving(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the lease's id")
    parser.add_argument("--fence", type=int, metavar="N", help="the lease's fence; needed with --done")
    parser.add_argument("--done", type=json_value, metavar="JSON", help="what is done")
    for part, meaning in zip(PARTS, _MEANINGS, strict=True):
        option = f"--{part.replace('_', '-')}"
        parser.add_argument(option, dest=part, type=json_value, metavar="JSON", help=meaning)
    _finish(parser, run_checkpoint)


def _finish(parser: ArgumentParser, run: Any, *, session: bool = True) -> None:
    if session:
        in_session(parser)
    finished(parser, run)

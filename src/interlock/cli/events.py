"""`interlock events` and `audit`: what happened, and who did it."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING

from interlock.cli.exits import Exit
from interlock.cli.options import Parser, finished, paging, wants_json
from interlock.cli.output import exactly, one_line, painted, safe, say, say_json, warn
from interlock.cli.values import count_to

if TYPE_CHECKING:
    from interlock.sdk.client import Interlock
    from interlock.wire.events import Event, EventPage

PAGE_MAX = 200
WAIT_SECONDS = 20.0
AWAY_SECONDS = 0.5


def declare_events() -> Parser:
    """The options of `interlock events`."""
    parser = Parser(
        "interlock events",
        description="Show the newest events, or those after a position, oldest first.",
        examples=(
            "interlock events --follow",
            "interlock events --type 'approval.*' --type job.denied",
            "interlock events --after 1200 --json",
        ),
    )
    parser.add_argument("--follow", action="store_true", help="go on until interrupted")
    parser.add_argument("--after", type=_position, metavar="N", help="only events after this position")
    parser.add_argument(
        "--type",
        dest="types",
        action="append",
        default=[],
        metavar="TYPE",
        help="only this type, such as job.denied or approval.*; repeatable",
    )
    parser.add_argument(
        "--limit", type=count_to(PAGE_MAX), metavar="N", default=50, help="at most this many (default 50)"
    )
    return finished(parser, run_events)


def run_events(args: Namespace) -> int:
    """Show events; with `--follow`, one JSON document a line under `--json`."""
    from interlock.cli.connection import connected

    with connected(args) as client:
        if args.follow:
            for event in _followed(client, args):
                _say_one(event, args)
            return Exit.DONE
        page = client.events(after=args.after, types=args.types, limit=min(args.limit, PAGE_MAX))
    if wants_json(args):
        say_json(page)
    elif page.items:
        for event in page.items:
            _say_one(event, args)
    else:
        say("no events match" if args.types else _nothing(args))
    return Exit.DONE


def _nothing(args: Namespace) -> str:
    return "no events after that position" if args.after is not None else "no events yet; changes cause them"


def _followed(client: Interlock, args: Namespace) -> Iterator[Event]:
    """The newest events (or those after a position), and then every one that comes."""
    page = client.events(after=args.after, types=args.types, limit=min(args.limit, PAGE_MAX))
    while True:
        yield from page.items
        page = _next_page(client, page.next_after, args)


def _next_page(client: Interlock, after: int, args: Namespace) -> EventPage:
    """What comes after a position, or nothing yet. A server that is away is waited for: nothing is missed."""
    import time

    from interlock.sdk.outcomes import Unavailable

    is_told = False
    while True:
        try:
            return client.events(after=after, types=args.types, limit=PAGE_MAX, wait_seconds=WAIT_SECONDS)
        except Unavailable as away:
            if not is_told and not wants_json(args):
                warn(f"{away}; going on after {after} when it is back")
            is_told = True
            time.sleep(AWAY_SECONDS)


def _say_one(event: Event, args: Namespace) -> None:
    if wants_json(args):
        say_json(event)
        return
    name = safe(event.type.removeprefix("dev.interlock."))
    about = painted(safe(event.subject), "bold")
    say(f"{event.position:>6}  {exactly(event.time)}  {name:<24}  {about}  {one_line(event.data)}")


def _position(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise ArgumentTypeError(f"{text!r} is not a position; use the number that an event shows")
    return int(text)


def declare_audit() -> Parser:
    """The options of `interlock audit`."""
    parser = Parser(
        "interlock audit",
        description="List every change and every refused decision, newest first.",
        examples=("interlock audit --subject job_…", "interlock audit --actor mia --action approve --json"),
    )
    parser.add_argument("--subject", metavar="ID", help="only entries about this id")
    parser.add_argument("--actor", metavar="NAME", help="only entries of this principal")
    parser.add_argument("--action", metavar="VERB", help="only what was done by this name, such as approve")
    paging(parser)
    return finished(parser, run_audit)


def run_audit(args: Namespace) -> int:
    """List audit entries."""
    from interlock.cli.connection import answer_list
    from interlock.cli.job_page import say_entries
    from interlock.wire.events import AuditEntry

    query = {"subject": args.subject, "actor": args.actor, "action": args.action}
    return answer_list(
        args,
        "audit",
        kind=AuditEntry,
        tell=say_entries,
        command="interlock audit",
        nothing="no entries match"
        if any(query.values())
        else "no entries yet; every change will be listed here",
        query=query,
    )

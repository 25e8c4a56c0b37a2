"""`interlock events`, `audit` and `webhooks`: what happened, and the addresses that events are posted to."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from interlock.cli.exits import Exit
from interlock.cli.options import Parser, finished, paging, told, wants_json
from interlock.cli.output import Table, exactly, listed, one_line, painted, safe, say, say_json, warn, when
from interlock.cli.values import count_to

if TYPE_CHECKING:
    from interlock.sdk.client import Interlock
    from interlock.wire.events import DeadLetter, Event, EventPage, Webhook

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
        help="such as approval.*; repeatable",
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
    parser.add_argument("--subject", metavar="ID", help="to what")
    parser.add_argument("--actor", metavar="NAME", help="by whom")
    parser.add_argument("--action", metavar="VERB", help="what was done, such as approve")
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


def declare_webhooks() -> Parser:
    """The options of `interlock webhooks …`."""
    parser = Parser(
        "interlock webhooks",
        description="Post events to an address, signed after the Standard Webhooks specification.",
        examples=(
            "interlock webhooks add https://example.com/interlock --type 'approval.*'",
            "interlock webhooks list",
            "interlock webhooks test wh_…",
            "interlock webhooks letters wh_…",
        ),
    )
    verbs = parser.add_subparsers(
        metavar="add|list|test|rotate|remove|letters|redeliver", required=True, parser_class=Parser
    )
    add = verbs.add_parser("add", **told("post events to an address from now on"))
    add.add_argument("address", metavar="URL", help="https://…")
    add.add_argument(
        "--type", dest="types", action="append", default=[], metavar="TYPE", help="such as approval.*"
    )
    add.add_argument("--description", default="", help="what it is for")
    finished(add, run_add)
    finished(verbs.add_parser("list", **told("list webhooks and how far they are")), run_list)
    for name, about, run in (
        ("test", "post a test event now", run_test),
        ("rotate", "sign with a new secret; the old one signs too for a day", run_rotate),
        ("remove", "post nothing more to it", run_remove),
        ("letters", "list events that it never took", run_letters),
    ):
        finished(_about_one(verbs.add_parser(name, **told(about))), run)
    redeliver = _about_one(verbs.add_parser("redeliver", **told("try a dead letter again")))
    redeliver.add_argument("event_id", metavar="EVENT", help="the event's id, evt_…")
    finished(redeliver, run_redeliver)
    return parser


def run_add(args: Namespace) -> int:
    """Add a webhook and show its secret."""
    from interlock.cli.connection import answer, connected

    with connected(args) as client:
        made = client.add_webhook(args.address, types=args.types, description=args.description)
    return answer(args, made, _say_secret)


def run_rotate(args: Namespace) -> int:
    """Replace the secret and show the new one."""
    from interlock.cli.connection import answer, connected

    with connected(args) as client:
        rotated = client.rotate_webhook(args.id)
    return answer(args, rotated, _say_secret)


def run_list(args: Namespace) -> int:
    """List webhooks."""
    from interlock.cli.connection import answer, connected

    with connected(args) as client:
        page = client.webhooks()
    return answer(args, page, lambda page: _say_webhooks(page.items))


def _say_webhooks(webhooks: Sequence[Webhook]) -> None:
    if not webhooks:
        say("no webhooks; add one with `interlock webhooks add URL`")
        return
    (
        Table(webhooks)
        .column("ID", lambda each: each.id)
        .column("URL", lambda each: each.url, flexible=True)
        .column("TYPES", lambda each: listed(each.types, "every"), flexible=True)
        .column("STATE", lambda each: each.progress.state if each.progress else "-")
        .column("BEHIND", lambda each: str(each.progress.behind) if each.progress else "-")
        .column("WAITING", lambda each: str(each.waiting))
        .column("DEAD", lambda each: str(each.dead))
        .say()
    )
    for each in webhooks:
        if each.progress and each.progress.error:
            say(f"{each.id}: {safe(each.progress.error)}")


def run_test(args: Namespace) -> int:
    """Post a test event; ends with 1 if it was not taken."""
    from interlock.cli.connection import answer, connected

    with connected(args) as client:
        tried = client.try_webhook(args.id)
    words = (
        f"delivered: it answered {tried.status} after {tried.milliseconds} ms"
        if tried.delivered
        else f"not delivered after {tried.milliseconds} ms: {safe(tried.error or '')}"
    )
    answer(args, tried, lambda _: say(words))
    return Exit.DONE if tried.delivered else Exit.ERROR


def run_remove(args: Namespace) -> int:
    """Remove a webhook."""
    from interlock.cli.connection import answer, connected

    with connected(args) as client:
        removed = client.remove_webhook(args.id)
    return answer(args, removed, lambda removed: say(f"{removed.id} gets nothing more"))


def run_letters(args: Namespace) -> int:
    """List dead letters."""
    from interlock.cli.connection import answer, connected

    with connected(args) as client:
        page = client.dead_letters(args.id)
    return answer(args, page, lambda page: _say_letters(args.id, page.items))


def _say_letters(webhook_id: str, letters: Sequence[DeadLetter]) -> None:
    if not letters:
        say("no dead letters")
        return
    (
        Table(letters)
        .column("EVENT", lambda each: each.event_id)
        .column("TYPE", lambda each: each.type)
        .column("ATTEMPTS", lambda each: str(each.attempts))
        .column("SINCE", lambda each: when(each.since))
        .column("WHY", lambda each: each.error, flexible=True)
        .say()
    )
    say("", f"try one again with: interlock webhooks redeliver {webhook_id} EVENT")


def run_redeliver(args: Namespace) -> int:
    """Try a dead letter again."""
    from interlock.cli.connection import answer, connected

    with connected(args) as client:
        letter = client.redeliver(args.id, args.event_id)
    shows = f"`interlock webhooks letters {args.id}` shows it if it fails"
    return answer(args, letter, lambda letter: say(f"{letter.event_id} is tried again now; {shows}"))


def _about_one(parser: ArgumentParser) -> ArgumentParser:
    parser.add_argument("id", metavar="ID", help="the webhook's id, wh_…")
    return parser


def _say_secret(made: Webhook) -> None:
    say(
        f"{made.id} posts to {safe(made.url)}, signed with:",
        "",
        f"  {made.secret}",
        "",
        f"It is shown only now. Try it with: interlock webhooks test {made.id}",
    )

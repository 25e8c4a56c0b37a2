"""`interlock webhooks add|list|test|rotate|remove|letters|redeliver`: where events are posted."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from interlock.cli.exits import Exit
from interlock.cli.options import Parser, finished, told

if TYPE_CHECKING:
    from interlock.wire.events import DeadLetter, Webhook


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
    from interlock.cli.output import Table, listed, safe, say

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
    from interlock.cli.output import safe, say

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
    from interlock.cli.output import say

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
    from interlock.cli.output import Table, say, when

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
    from interlock.cli.output import say

    with connected(args) as client:
        letter = client.redeliver(args.id, args.event_id)
    shows = f"`interlock webhooks letters {args.id}` shows it if it fails"
    return answer(args, letter, lambda letter: say(f"{letter.event_id} is tried again now; {shows}"))


def _about_one(parser: ArgumentParser) -> ArgumentParser:
    parser.add_argument("id", metavar="ID", help="the webhook's id, wh_…")
    return parser


def _say_secret(made: Webhook) -> None:
    from interlock.cli.output import safe, say

    say(
        f"{made.id} posts to {safe(made.url)}, signed with:",
        "",
        f"  {made.secret}",
        "",
        f"It is shown only now. Try it with: interlock webhooks test {made.id}",
    )

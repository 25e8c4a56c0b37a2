"""`interlock webhooks` and `webhook …`: the addresses that events are posted to."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from interlock.cli.exits import Exit
from interlock.cli.options import Noun, Parser, finished, paging
from interlock.cli.output import Table, listed, safe, say, say_fields, when

if TYPE_CHECKING:
    from interlock.wire.events import DeadLetter, Webhook


def declare_webhooks() -> Parser:
    """The options of `interlock webhooks`."""
    parser = Parser(
        "interlock webhooks",
        description="List webhooks, and how far each has come with its events.",
        examples=("interlock webhooks", "interlock webhooks --json"),
    )
    paging(parser)
    return finished(parser, run_webhooks)


def declare_webhook() -> Parser:
    """The options of `interlock webhook …`."""
    parser = Noun(
        "interlock webhook",
        description="Post events to an address, signed as the Standard Webhooks specification says.",
        examples=(
            "interlock webhook add https://example.com/interlock --type 'approval.*'",
            "interlock webhook wh_…",
            "interlock webhook test wh_…",
            "interlock webhook letters wh_…",
        ),
    )
    add = parser.verb("add", "post events to an address from now on")
    add.add_argument(
        "address", metavar="URL", help="where events are posted, such as https://example.com/hook"
    )
    add.add_argument(
        "--type",
        dest="types",
        action="append",
        default=[],
        metavar="TYPE",
        help="only this type, such as approval.*; repeatable",
    )
    add.add_argument("--description", default="", help="what it is for")
    finished(add, run_add)
    for name, about, run in (
        ("show", "show what it is sent, and how far it has come", run_show),
        ("test", "post a test event now", run_test),
        ("rotate", "sign with a new secret; the old one signs too for a day", run_rotate),
        ("remove", "remove it: nothing more is posted to it", run_remove),
        ("letters", "list its dead letters: events that it never accepted", run_letters),
    ):
        finished(_about_one(parser.verb(name, about)), run)
    redeliver = _about_one(parser.verb("redeliver", "try a dead letter again"))
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


def run_webhooks(args: Namespace) -> int:
    """List webhooks."""
    from interlock.cli.connection import answer_list
    from interlock.wire.events import Webhook

    nothing = "no webhooks yet; add one with `interlock webhook add URL`"
    command = "interlock webhooks"
    return answer_list(args, "webhooks", kind=Webhook, tell=_say_webhooks, command=command, nothing=nothing)


def run_show(args: Namespace) -> int:
    """Show one webhook."""
    from interlock.cli.connection import answer_call
    from interlock.wire.events import Webhook

    return answer_call(args, "GET", "webhooks", args.id, kind=Webhook, tell=_say_webhook)


def _say_webhooks(webhooks: Sequence[Webhook]) -> None:
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


def _say_webhook(webhook: Webhook) -> None:
    progress = webhook.progress
    say_fields(
        [
            ("webhook", webhook.id),
            ("address", webhook.url),
            ("about", webhook.description),
            ("types", listed(webhook.types, "every event")),
            ("state", progress.state if progress else "-"),
            ("behind", str(progress.behind) if progress else "-"),
            ("waiting", str(webhook.waiting)),
            ("dead letters", str(webhook.dead)),
            ("last error", safe(progress.error or "") if progress else ""),
        ]
    )


def run_test(args: Namespace) -> int:
    """Post a test event; ends with 1 if it was not taken."""
    from interlock.cli.connection import answer, connected

    with connected(args) as client:
        tried = client.test_webhook(args.id)
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
    say("", f"try one again with: interlock webhook redeliver {webhook_id} EVENT")


def run_redeliver(args: Namespace) -> int:
    """Try a dead letter again."""
    from interlock.cli.connection import answer, connected

    with connected(args) as client:
        letter = client.redeliver_dead_letter(args.id, args.event_id)
    shows = f"`interlock webhook letters {args.id}` shows it if it fails"
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
        f"It is shown only now. Try it with: interlock webhook test {made.id}",
    )

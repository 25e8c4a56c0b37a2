"""`interlock webhooks add|list|test|rotate|remove|letters|redeliver`: where events are posted."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from interlock.cli.exits import Exit
from interlock.cli.options import Parser, Run, as_json, connecting, told, wants_json

if TYPE_CHECKING:
    from interlock.wire.events import Webhook


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
    _finish(add, run_add)
    _finish(verbs.add_parser("list", **told("list webhooks and how far they are")), run_list)
    for name, about, run in (
        ("test", "post a test event now", run_test),
        ("rotate", "sign with a new secret; the old one signs too for a day", run_rotate),
        ("remove", "post nothing more to it", run_remove),
        ("letters", "list events that it never took", run_letters),
    ):
        _finish(_about_one(verbs.add_parser(name, **told(about))), run)
    redeliver = _about_one(verbs.add_parser("redeliver", **told("try a dead letter again")))
    redeliver.add_argument("event_id", metavar="EVENT", help="the event's id, evt_…")
    _finish(redeliver, run_redeliver)
    return parser


def run_add(args: Namespace) -> int:
    """Add a webhook and show its secret."""
    from interlock.cli.connection import connected

    with connected(args) as client:
        made = client.add_webhook(args.address, types=args.types, description=args.description)
    return _say_secret(args, made)


def run_rotate(args: Namespace) -> int:
    """Replace the secret and show the new one."""
    from interlock.cli.connection import connected

    with connected(args) as client:
        rotated = client.rotate_webhook(args.id)
    return _say_secret(args, rotated)


def run_list(args: Namespace) -> int:
    """List webhooks."""
    from interlock.cli.connection import connected
    from interlock.cli.output import Column, listed, safe, say, say_table

    with connected(args) as client:
        page = client.webhooks()
    if wants_json(args):
        return _say_json(page)
    if not page.items:
        say("no webhooks; add one with `interlock webhooks add URL`")
        return Exit.DONE
    columns = (
        Column("ID"),
        Column("URL", flexible=True),
        Column("TYPES", flexible=True),
        Column("STATE"),
        Column("BEHIND"),
        Column("WAITING"),
        Column("DEAD"),
    )
    say_table(
        columns,
        [
            (
                each.id,
                safe(each.url),
                listed(each.types, "every"),
                *_progress(each),
                str(each.waiting),
                str(each.dead),
            )
            for each in page.items
        ],
    )
    for each in page.items:
        if each.progress and each.progress.error:
            say(f"{each.id}: {safe(each.progress.error)}")
    return Exit.DONE


def run_test(args: Namespace) -> int:
    """Post a test event; ends with 1 if it was not taken."""
    from interlock.cli.connection import connected
    from interlock.cli.output import safe, say

    with connected(args) as client:
        tried = client.try_webhook(args.id)
    if wants_json(args):
        _say_json(tried)
    elif tried.delivered:
        say(f"delivered: it answered {tried.status} after {tried.milliseconds} ms")
    else:
        say(f"not delivered after {tried.milliseconds} ms: {safe(tried.error or '')}")
    return Exit.DONE if tried.delivered else Exit.ERROR


def run_remove(args: Namespace) -> int:
    """Remove a webhook."""
    from interlock.cli.connection import connected
    from interlock.cli.output import say

    with connected(args) as client:
        removed = client.remove_webhook(args.id)
    if wants_json(args):
        return _say_json(removed)
    say(f"{removed.id} gets nothing more")
    return Exit.DONE


def run_letters(args: Namespace) -> int:
    """List dead letters."""
    from interlock.cli.connection import connected
    from interlock.cli.output import Column, safe, say, say_table, when

    with connected(args) as client:
        page = client.dead_letters(args.id)
    if wants_json(args):
        return _say_json(page)
    if not page.items:
        say("no dead letters")
        return Exit.DONE
    columns = (
        Column("EVENT"),
        Column("TYPE"),
        Column("ATTEMPTS"),
        Column("SINCE"),
        Column("WHY", flexible=True),
    )
    say_table(
        columns,
        [
            (each.event_id, safe(each.type), str(each.attempts), when(each.since), safe(each.error))
            for each in page.items
        ],
    )
    say("", f"try one again with: interlock webhooks redeliver {args.id} EVENT")
    return Exit.DONE


def run_redeliver(args: Namespace) -> int:
    """Try a dead letter again."""
    from interlock.cli.connection import connected
    from interlock.cli.output import say

    with connected(args) as client:
        letter = client.redeliver(args.id, args.event_id)
    if wants_json(args):
        return _say_json(letter)
    say(f"{letter.event_id} is tried again now; `interlock webhooks letters {args.id}` shows it if it fails")
    return Exit.DONE


def _about_one(parser: ArgumentParser) -> ArgumentParser:
    parser.add_argument("id", metavar="ID", help="the webhook's id, wh_…")
    return parser


def _finish(parser: ArgumentParser, run: Run) -> None:
    as_json(parser)
    connecting(parser)
    parser.set_defaults(run=run)


def _progress(webhook: Webhook) -> tuple[str, str]:
    if webhook.progress is None:
        return "-", "-"
    return webhook.progress.state, str(webhook.progress.behind)


def _say_secret(args: Namespace, made: Webhook) -> int:
    from interlock.cli.output import safe, say

    if wants_json(args):
        return _say_json(made)
    say(
        f"{made.id} posts to {safe(made.url)}, signed with:",
        "",
        f"  {made.secret}",
        "",
        f"It is shown only now. Try it with: interlock webhooks test {made.id}",
    )
    return Exit.DONE


def _say_json(value: Any) -> int:
    from interlock.cli.output import say_json

    say_json(value)
    return Exit.DONE

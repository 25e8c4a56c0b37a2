"""`interlock sessions`, `interlock session end` and `interlock open`: who is signed in to the console."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from interlock.cli.exits import Exit
from interlock.cli.options import Parser, Run, as_json, connecting, given, paging, told, wants_json

if TYPE_CHECKING:
    from interlock.wire.sessions import Session

_LOCAL_SERVER = "http://127.0.0.1:8700"


def declare_sessions() -> Parser:
    """The options of `interlock sessions`."""
    parser = Parser(
        "interlock sessions",
        description="List sessions of the console, the newest first: yours, or as an admin those of others.",
        examples=("interlock sessions", "interlock sessions --principal ada", "interlock sessions --all"),
    )
    whose = parser.add_mutually_exclusive_group()
    whose.add_argument("--principal", metavar="NAME", help="those of this person (admins only)")
    whose.add_argument("--all", action="store_true", help="those of everybody (admins only)")
    paging(parser)
    _ends(parser, run_sessions)
    return parser


def declare_session() -> Parser:
    """The options of `interlock session …`."""
    parser = Parser(
        "interlock session",
        description="End a session of the console: your own, or as an admin that of anybody.",
        examples=("interlock session end ses_…",),
    )
    verbs = parser.add_subparsers(metavar="end", required=True, parser_class=Parser)
    end = verbs.add_parser("end", **told("sign out whoever has it, at once"))
    end.add_argument("id", metavar="ID", help="the session's id")
    _ends(end, run_end)
    return parser


def declare_open() -> Parser:
    """The options of `interlock open`."""
    parser = Parser(
        "interlock open",
        description="Open the console in the browser, signed in as you, with a link that works once.\n"
        f"Without a key you are the person of the store here, and the server is {_LOCAL_SERVER} unless --url says "
        "otherwise.",
        examples=("interlock open", "interlock open --print", "interlock open --url http://127.0.0.1:8800"),
    )
    parser.add_argument("--print", action="store_true", dest="only_print", help="print the link instead")
    _ends(parser, run_open)
    return parser


def run_sessions(args: Namespace) -> int:
    """List sessions."""
    from interlock.cli.connection import connected, listing, more, typed
    from interlock.cli.output import say, say_json
    from interlock.wire.sessions import Session

    query = {"principal": args.principal, "all": "true" if args.all else None}
    with connected(args) as client:
        page = listing(client, "sessions", limit=args.limit, cursor=args.cursor, query=query)
    if wants_json(args):
        say_json(page)
    elif page.items:
        _say_sessions(typed(page.items, list[Session]))
        command = "interlock sessions --all" if args.all else "interlock sessions"
        say(*filter(None, [more(page, command, args, {"principal": args.principal})]))
    else:
        say("nobody signed in; `interlock open` opens the console")
    return Exit.DONE


def run_end(args: Namespace) -> int:
    """End one session."""
    from interlock.cli.connection import connected
    from interlock.cli.output import safe, say, say_json

    with connected(args) as client:
        ended = client.end_session(args.id)
    if wants_json(args):
        say_json(ended)
    else:
        say(f"{safe(ended.session_id)} of {safe(ended.principal)} has ended")
    return Exit.DONE


def run_open(args: Namespace) -> int:
    """Make a link, and open it."""
    from interlock.cli.connection import connected
    from interlock.cli.output import say, say_json

    server = (given(args, "url") or os.environ.get("INTERLOCK_URL") or _LOCAL_SERVER).rstrip("/")
    with connected(_at_the_store(args)) as client:
        made = client.make_sign_in_link()
    link = server + made.path
    if wants_json(args):
        say_json({"url": link, "link_id": made.link_id, "expires_at": made.expires_at})
    elif args.only_print:
        say(link)
    elif _opened(link):
        say(f"opened {server}/console/ in the browser; is `interlock serve` running there?")
    else:
        say("no browser could be started here; open this link in one, it works once:", link)
    return Exit.DONE


def _at_the_store(args: Namespace) -> Namespace:
    """The options to make a link with: without a key, `--url` says only where the browser goes."""
    has_key = given(args, "api_key") or os.environ.get("INTERLOCK_KEY")
    if has_key or not given(args, "url"):
        return args
    from interlock.service.settings import embedded_store, store_named

    store = store_named(given(args, "store")) or embedded_store()
    return Namespace(**{**vars(args), "url": None, "store": store})


def _opened(link: str) -> bool:
    import webbrowser

    return webbrowser.open(link)


def _say_sessions(sessions: list[Session]) -> None:
    from interlock.cli.output import Column, safe, say_table, state_cell, when

    columns = (
        Column("ID"),
        Column("PERSON", flexible=True),
        Column("STATE"),
        Column("BY"),
        Column("FROM", flexible=True),
        Column("OPENED"),
        Column("SEEN"),
    )
    rows = [
        (
            each.session_id,
            safe(each.principal),
            state_cell("live" if each.live else "over"),
            safe(each.by or "-"),
            safe(each.client or "-"),
            when(each.opened_at),
            when(each.seen_at),
        )
        for each in sessions
    ]
    say_table(columns, rows)


def _ends(parser: ArgumentParser, run: Run) -> None:
    as_json(parser)
    connecting(parser)
    parser.set_defaults(run=run)

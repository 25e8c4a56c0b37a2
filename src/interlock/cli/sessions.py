"""`interlock sessions`, `interlock session end` and `interlock open`: who is signed in to the console."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from interlock.cli.exits import Exit
from interlock.cli.options import LOCAL_SERVER, Noun, Parser, finished, given, paging, wants_json
from interlock.cli.output import Table, exactly, safe, say, say_fields, say_json, state_cell, when

if TYPE_CHECKING:
    from interlock.wire.identity import Session


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
    return finished(parser, run_sessions)


def declare_session() -> Parser:
    """The options of `interlock session …`."""
    parser = Noun(
        "interlock session",
        description="Show or end a session of the console: your own, or as an admin that of another person.",
        examples=("interlock session ses_…", "interlock session end ses_…"),
    )
    show = parser.verb("show", "show who is signed in, since when and from where")
    show.add_argument("id", metavar="ID", help="the session's id")
    finished(show, run_show)
    end = parser.verb("end", "sign its person out at once")
    end.add_argument("id", metavar="ID", help="the session's id")
    finished(end, run_end)
    return parser


def declare_open() -> Parser:
    """The options of `interlock open`."""
    parser = Parser(
        "interlock open",
        description="Open the console in the browser, signed in as you, with a link that works once.\n"
        f"Without a key you are the person of the store here, and the server is {LOCAL_SERVER} unless --url says "
        "otherwise.",
        examples=("interlock open", "interlock open --print", "interlock open --url http://127.0.0.1:8800"),
    )
    parser.add_argument("--print", action="store_true", dest="only_print", help="print the link instead")
    return finished(parser, run_open)


def run_sessions(args: Namespace) -> int:
    """List sessions."""
    from interlock.cli.connection import answer_list
    from interlock.wire.identity import Session

    return answer_list(
        args,
        "sessions",
        kind=Session,
        tell=_say_sessions,
        command="interlock sessions --all" if args.all else "interlock sessions",
        nothing="no sessions yet; `interlock open` opens the console and signs you in",
        query={"principal": args.principal, "all": "true" if args.all else None},
        options={"principal": args.principal},
    )


def run_show(args: Namespace) -> int:
    """Show one session."""
    from interlock.cli.connection import answer_one
    from interlock.wire.identity import Session

    def is_it(session: Session) -> bool:
        return session.session_id == args.id

    return answer_one(
        args, "sessions", kind=Session, is_it=is_it, tell=_say_session, name=f"session {args.id!r}"
    )


def run_end(args: Namespace) -> int:
    """End one session."""
    from interlock.cli.connection import answer, connected

    with connected(args) as client:
        ended = client.end_session(args.id)
    words = f"{safe(ended.session_id)} of {safe(ended.principal)} has ended"
    return answer(args, ended, lambda _: say(words))


def run_open(args: Namespace) -> int:
    """Make a link, and open it."""
    from interlock.cli.connection import connected

    server = (given(args, "url") or os.environ.get("INTERLOCK_URL") or LOCAL_SERVER).rstrip("/")
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


def _say_session(session: Session) -> None:
    say_fields(
        [
            ("session", session.session_id),
            ("person", safe(session.principal)),
            ("state", state_cell("live" if session.live else "over")),
            ("signed in", safe(session.by or "-")),
            ("from", safe(session.client or "-")),
            ("opened", f"{when(session.opened_at)} ({exactly(session.opened_at)})"),
            ("last seen", when(session.seen_at)),
        ]
    )


def _say_sessions(sessions: Sequence[Session]) -> None:
    (
        Table(sessions)
        .column("ID", lambda each: each.session_id)
        .column("PERSON", lambda each: each.principal, flexible=True)
        .column("STATE", lambda each: state_cell("live" if each.live else "over"))
        .column("BY", lambda each: each.by or "-")
        .column("FROM", lambda each: each.client or "-", flexible=True)
        .column("OPENED", lambda each: when(each.opened_at))
        .column("SEEN", lambda each: when(each.seen_at))
        .say()
    )

"""`interlock audit`: who did what, newest first."""

from __future__ import annotations

from argparse import Namespace

from interlock.cli.exits import Exit
from interlock.cli.options import Parser, as_json, connecting, paging, wants_json


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
    as_json(parser)
    connecting(parser)
    parser.set_defaults(run=run_audit)
    return parser


def run_audit(args: Namespace) -> int:
    """List audit entries."""
    from interlock.cli.connection import connected, listing, more, typed
    from interlock.cli.job_page import say_entries
    from interlock.cli.output import say, say_json
    from interlock.sdk.models import AuditEntry

    query = {"subject": args.subject, "actor": args.actor, "action": args.action}
    with connected(args) as client:
        page = listing(client, "audit", limit=args.limit, cursor=args.cursor, query=query)
    if wants_json(args):
        say_json(page)
    elif page["items"]:
        say_entries(typed(page["items"], list[AuditEntry]))
        say(*filter(None, [more(page, "interlock audit", args, query)]))
    else:
        say("no entries match" if any(query.values()) else "no entries yet; every change will be listed here")
    return Exit.DONE

"""`interlock approvals` and `approval`: what waits for people, and one request with all they need."""

from __future__ import annotations

from argparse import Namespace

from interlock.cli.exits import Exit
from interlock.cli.options import Parser, as_json, connecting, paging, wants_json

STATES = ("pending", "approved", "rejected", "expired")


def declare_approvals() -> Parser:
    """The options of `interlock approvals`."""
    parser = Parser(
        "interlock approvals",
        description="List requests for people's decision, newest first. Without --state, what is pending.",
        examples=("interlock approvals", "interlock approvals --state rejected --json"),
    )
    parser.add_argument("--state", choices=(*STATES, "all"), default="pending", help="(default: pending)")
    paging(parser)
    as_json(parser)
    connecting(parser)
    parser.set_defaults(run=run_approvals)
    return parser


def declare_approval() -> Parser:
    """The options of `interlock approval`."""
    parser = Parser(
        "interlock approval",
        description="Show everything needed to decide on one job.",
        examples=("interlock approvals", "interlock approval job_…"),
    )
    parser.add_argument("id", metavar="ID", help="the job's id")
    as_json(parser)
    connecting(parser)
    parser.set_defaults(run=run_approval)
    return parser


def run_approvals(args: Namespace) -> int:
    """List requests."""
    from interlock.cli.approval_page import say_approvals
    from interlock.cli.connection import connected, listing, more, typed
    from interlock.cli.output import say, say_json
    from interlock.sdk.approval_models import ApprovalItem

    query = {"state": None if args.state == "all" else args.state}
    with connected(args) as client:
        page = listing(client, "approvals", limit=args.limit, cursor=args.cursor, query=query)
    if wants_json(args):
        say_json(page)
    elif page["items"]:
        say_approvals(typed(page["items"], list[ApprovalItem]))
        command = f"interlock approvals --state {args.state}"
        say(*filter(None, [more(page, command, args)]))
    else:
        say(_nothing(args.state))
    return Exit.DONE


def run_approval(args: Namespace) -> int:
    """Show one request."""
    from interlock.cli.approval_page import say_approval
    from interlock.cli.connection import connected, typed
    from interlock.cli.output import say_json
    from interlock.sdk.approval_models import ApprovalRequest

    with connected(args) as client:
        found = client.call("GET", "approvals", args.id)
    if wants_json(args):
        say_json(found)
    else:
        say_approval(typed(found, ApprovalRequest))
    return Exit.DONE


def _nothing(state: str) -> str:
    if state == "pending":
        return "nothing waits for a decision; `interlock approvals --state all` shows what was decided"
    return "no requests; the policy asks people where a rule says `decision: require_human`"

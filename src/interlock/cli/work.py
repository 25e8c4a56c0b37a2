"""`interlock retry` and `interlock keys`: dead letters come back, and permits get a new signing key."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence

from interlock.cli.exits import Exit
from interlock.cli.options import Parser, as_json, connecting, wants_json


def declare_retry() -> Parser:
    """The options of `interlock retry`."""
    parser = Parser(
        "interlock retry",
        description="Put a job that failed for good back to work, with all its attempts before it again.",
        examples=("interlock jobs --state FAILED", "interlock retry job_0190…"),
    )
    parser.add_argument("id", metavar="ID", help="the id of a job in state FAILED")
    as_json(parser)
    connecting(parser)
    parser.set_defaults(run=run_retry)
    return parser


def declare_keys() -> Parser:
    """The options of `interlock keys`."""
    parser = Parser(
        "interlock keys",
        description="Show the public keys that check permits, or sign with a new one.\n"
        "(`interlock key` makes the keys that people and programs log in with.)",
        examples=("interlock keys", "interlock keys rotate", "interlock keys rotate --revoke"),
    )
    parser.add_argument("verb", nargs="?", choices=("list", "rotate"), default="list", help="list or rotate")
    parser.add_argument(
        "--lead-seconds", type=int, metavar="N", default=300, help="publish it so long before it signs"
    )
    parser.add_argument(
        "--revoke", action="store_true", help="a key was stolen: withdraw every other at once"
    )
    as_json(parser)
    connecting(parser)
    parser.set_defaults(run=run_keys)
    return parser


def run_retry(args: Namespace) -> int:
    """Put one dead letter back."""
    from interlock.cli.connection import connected
    from interlock.cli.output import say, say_json

    with connected(args) as client:
        job = client.call("POST", "jobs", args.id, "retry", body={})
    if wants_json(args):
        say_json(job)
    else:
        say(f"{job['id']} is {job['state']} again")
    return Exit.DONE


def run_keys(args: Namespace) -> int:
    """Show or rotate the keys of permits."""
    from interlock.cli.connection import connected
    from interlock.cli.output import say_json

    with connected(args) as client:
        if args.verb == "rotate":
            found = client.rotate_permit_keys(lead_seconds=args.lead_seconds, revoke=args.revoke)
        else:
            found = client.permit_keys()
    if wants_json(args):
        say_json(found)
    else:
        _say_keys(found["keys"])
    return Exit.DONE


def _say_keys(keys: Sequence[Mapping[str, str | None]]) -> None:
    from interlock.cli.output import Column, say_table
    from interlock.cli.wording import moment, when

    columns = (Column("KEY"), Column("SIGNS FROM"), Column("PUBLISHED UNTIL"))
    say_table(
        columns,
        (
            (str(key["kid"]), when(moment(key["signs_from"])), when(moment(key["published_until"])))
            for key in keys
        ),
    )

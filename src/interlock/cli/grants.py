"""`interlock grant`, `grants` and `revoke`: permissions for a task, issued by people."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from interlock.cli.exits import Exit, Failed
from interlock.cli.grant_values import limit, pin
from interlock.cli.options import Parser, as_json, connecting, paging, wants_json
from interlock.cli.values import count_to, duration

if TYPE_CHECKING:
    from datetime import datetime

    from interlock.sdk.client import Interlock
    from interlock.sdk.grant_models import Grant, GrantTerms

STATES = ("open", "spent", "expired", "revoked")


def declare_grant() -> Parser:
    """The options of `interlock grant`."""
    parser = Parser(
        "interlock grant",
        description="Permit a task, so many times, until a moment. Pins only narrow.",
        examples=(
            "interlock grant deploy --pin args.0=production --expires-in 15m",
            "interlock grant refund --pin 'amount_cents<=500' --uses 10 --limit 'amount_cents<=2000'",
            "interlock grant exec.pytest --standing --pin cwd=/srv/billing --uses 10",
            "interlock grant deploy --sign-with ~/.ssh/id_ed25519",
        ),
    )
    parser.add_argument("task", metavar="TASK", help="what may be done")
    parser.add_argument(
        "--pin", type=pin, action="append", default=[], metavar="PIN",
        help="PATH=VALUE, PATH<=NUMBER or PATH~GLOB on an argument; repeat it",
    )  # fmt: skip
    parser.add_argument(
        "--limit", "--budget", type=limit, action="append", default=[], metavar="PATH<=N",
        help="what all uses together may add up to; repeat it",
    )  # fmt: skip
    parser.add_argument(
        "--uses", type=count_to(1_000_000), default=1, metavar="N", help="how often (default 1)"
    )
    parser.add_argument(
        "--expires-in", type=duration, default="1h", metavar="1h", help="for how long (default 1h)"
    )
    parser.add_argument("--standing", action="store_true", help="honour it where jobs are submitted")
    parser.add_argument("--reason", help="why; it is kept in the audit log")
    parser.add_argument("--sign-with", metavar="KEYFILE", help="sign it here with an Ed25519 private key")
    as_json(parser)
    connecting(parser)
    parser.set_defaults(run=run_grant)
    return parser


def declare_grants() -> Parser:
    """The options of `interlock grants`."""
    parser = Parser(
        "interlock grants",
        description="List grants, newest first, or show one with its uses.",
        examples=("interlock grants --state open", "interlock grants gnt_…"),
    )
    parser.add_argument("id", metavar="ID", nargs="?", help="show this one")
    parser.add_argument("--task", help="only of this task")
    parser.add_argument("--state", choices=STATES, metavar="STATE", help=", ".join(STATES))
    paging(parser)
    as_json(parser)
    connecting(parser)
    parser.set_defaults(run=run_grants)
    return parser


def declare_revoke() -> Parser:
    """The options of `interlock revoke`."""
    parser = Parser("interlock revoke", description="End what is left of a grant; claimed uses stay claimed.")
    parser.add_argument("id", metavar="ID", help="the id that issuing it printed")
    parser.add_argument("--reason", help="why; it is kept in the audit log")
    as_json(parser)
    connecting(parser)
    parser.set_defaults(run=run_revoke)
    return parser


def run_grant(args: Namespace) -> int:
    """Issue one grant."""
    from interlock.cli.connection import connected

    pins = dict(args.pin)
    if len(pins) != len(args.pin):
        raise Failed("one path is pinned twice; keep one of them", Exit.USAGE)
    with connected(args) as client:
        granted = client.grant(
            args.task,
            pins=pins,
            limits=args.limit,
            uses=args.uses,
            standing=args.standing,
            reason=args.reason,
            **_ending(client, args, pins),
        )
    _tell(granted, args)
    return Exit.DONE


def run_grants(args: Namespace) -> int:
    """List grants, or show one."""
    from interlock.cli.connection import connected, listing, more, typed
    from interlock.cli.grant_page import say_grant, say_grants
    from interlock.cli.output import say, say_json
    from interlock.sdk.grant_models import Grant

    query = {"task": args.task, "state": args.state}
    with connected(args) as client:
        if args.id:
            found = client.call("GET", "grants", args.id)
        else:
            found = listing(client, "grants", limit=args.limit, cursor=args.cursor, query=query)
    if wants_json(args):
        say_json(found)
    elif args.id:
        say_grant(typed(found, Grant))
    elif found["items"]:
        say_grants(typed(found["items"], list[Grant]))
        say(*filter(None, [more(found, "interlock grants", args, query)]))
    else:
        say("no grants; issue one with `interlock grant TASK`")
    return Exit.DONE


def run_revoke(args: Namespace) -> int:
    """End one grant."""
    from interlock.cli.connection import connected

    with connected(args) as client:
        revoked = client.grant_revoke(args.id, reason=args.reason)
    _tell(revoked, args)
    return Exit.DONE


def _ending(client: Interlock, args: Namespace, pins: dict[str, Any]) -> dict[str, Any]:
    """When it ends; for a signed grant as it was signed, by the service's clock and not by this machine's."""
    if not args.sign_with:
        return {"expires_in": args.expires_in}
    from interlock.cli.grant_signing import load_private_key, sign_grant
    from interlock.codec.durations import seconds_of

    key = load_private_key(args.sign_with)
    terms = client.grant_terms()
    signed = sign_grant(
        key,
        terms,
        task=args.task,
        pins=pins,
        limits=args.limit,
        uses=args.uses,
        expires_seconds=seconds_of(args.expires_in),
        standing=args.standing,
    )
    _tell_signed(args, terms, signed["expires_at"])
    return signed


def _tell_signed(args: Namespace, terms: GrantTerms, expires_at: datetime) -> None:
    """Say what was signed before it is sent: the service names tenant, approver, id and time, and might lie."""
    from interlock.cli.output import warn
    from interlock.cli.wording import exactly

    if not wants_json(args):
        whose = f"{terms.approver} of tenant {terms.tenant}"
        warn(
            f"signed {args.task} as {terms.nonce} for {whose}: {args.uses} in all, until {exactly(expires_at)}"
        )


def _tell(grant: Grant, args: Namespace) -> None:
    from msgspec import to_builtins

    from interlock.cli.grant_page import say_grant
    from interlock.cli.output import say_json

    if wants_json(args):
        say_json(to_builtins(grant))
    else:
        say_grant(grant)

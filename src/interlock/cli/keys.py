"""`interlock key create|list|revoke`: on the store itself, or through a server as an admin.

The store is used unless a server is named: with `--url`, or with INTERLOCK_URL if no store is named.
"""

from __future__ import annotations

import os
from argparse import ArgumentTypeError, Namespace
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from interlock.cli.exits import Exit, Failed
from interlock.cli.init import on_store
from interlock.cli.options import Parser, as_json, connecting, given, told, wants_json
from interlock.cli.output import Cell, Column, listed, safe, say_table, when
from interlock.cli.values import words

if TYPE_CHECKING:
    from interlock.service.service import Service
    from interlock.wire.identity import ApiKey, IssuedKey, IssueKeyBody
    from interlock.wire.pages import Page


def say_keys(keys: Sequence[ApiKey]) -> None:
    """A table of keys."""
    columns = (
        Column("KEY ID"),
        Column("OF", flexible=True),
        Column("KIND"),
        Column("ROLES", flexible=True),
        Column("GROUPS", flexible=True, optional=True),
        Column("OWNER", flexible=True, optional=True),
        Column("CREATED", optional=True),
        Column("STATE"),
    )
    say_table(columns, [_row(key) for key in keys])


def _row(key: ApiKey) -> tuple[str | Cell, ...]:
    revoked_at = key.revoked_at
    state = Cell(f"revoked {when(revoked_at)}", "dim") if revoked_at else Cell("live", "green")
    return (
        key.key_id,
        safe(key.principal),
        key.kind,
        listed(key.roles),
        listed(key.groups),
        safe(key.owner or "-"),
        when(key.created_at),
        state,
    )


T = TypeVar("T")

KINDS = ("person", "agent", "worker", "service")
ROLES = ("submit", "work", "review", "operate", "audit", "admin")
_LIST_MAX = 1000


class _EndedKey(msgspec.Struct, frozen=True, kw_only=True):
    """What the store says of a key that was revoked; a server says all about it but the tenant."""

    key_id: str
    principal: str
    tenant: str = ""
    revoked_at: datetime | None = None


def declare_key() -> Parser:
    """The options of `interlock key …`."""
    parser = Parser(
        "interlock key",
        description="Create, list and revoke keys, on the store itself, with or without a running server;\n"
        "with --url through the server, with an admin's key.",
        examples=(
            "interlock key create mia --kind person --roles review,admin --groups finance",
            "interlock key create payer --kind agent --roles submit --owner mia --json",
            "interlock key list",
            "interlock key revoke 0f3c…",
        ),
    )
    verbs = parser.add_subparsers(metavar="create|list|revoke", required=True, parser_class=Parser)
    _declare_create(verbs.add_parser("create", **told("give somebody a key; it is shown once")))
    _declare_list(verbs.add_parser("list", **told("list keys, newest first")))
    _declare_revoke(verbs.add_parser("revoke", **told("end a key for good")))
    return parser


def run_create(args: Namespace) -> int:
    """Make a key, and the principal if it is new."""
    from interlock.cli.connection import typed
    from interlock.cli.output import listed, say, say_json
    from interlock.wire.identity import IssuedKey, IssueKeyBody

    body = IssueKeyBody(
        kind=args.kind,
        roles=list(args.roles),
        groups=list(args.groups) if args.groups is not None else None,
        owner=args.owner,
    )
    # The first key is how a server is set up, often before it first runs; so this makes the store, as `serve` does.
    answer = (
        _issued_by_server(args, body)
        if _through_server(args)
        else on_store(args, _issue(args), makes_store=True)
    )
    if wants_json(args):
        say_json(answer)
        return Exit.DONE
    issued = typed(answer, IssuedKey)
    groups = f"; groups {listed(args.groups)}" if args.groups else ""
    say(
        f"a key for {issued.principal} ({args.kind}; roles {', '.join(args.roles)}{groups}) "
        f"of tenant {issued.tenant}:",
        "",
        f"  {issued.key}",
        "",
        f"It is shown only now and stored only as a digest. Use it with `export INTERLOCK_KEY=…`; "
        f"end it with `interlock key revoke {issued.key_id}`.",
    )
    return Exit.DONE


def run_list(args: Namespace) -> int:
    """List a tenant's keys."""
    from interlock.cli.connection import typed
    from interlock.cli.output import say, say_json
    from interlock.wire.identity import ApiKey

    page = _page(args)
    if wants_json(args):
        say_json(page)
    elif page.items:
        say_keys(typed(page.items, list[ApiKey]))
    else:
        say("no keys yet; make one with `interlock key create NAME --kind person --roles review`")
    return Exit.DONE


def run_revoke(args: Namespace) -> int:
    """End a key."""
    from interlock.cli.connection import connected, typed
    from interlock.cli.output import say, say_json

    key_id = _meant(args)
    if _through_server(args):
        with connected(args) as client:
            ended = client.call("POST", "api-keys", key_id, "revoke")
    else:
        ended = on_store(args, _revoke(key_id))
    if wants_json(args):
        say_json(ended)
    else:
        key = typed(ended, _EndedKey)
        say(f"key {key.key_id} of {key.principal} is revoked; the next request with it is refused")
    return Exit.DONE


def _declare_create(parser: Parser) -> None:
    parser.description = "Give somebody a key. Roles replace those they had; groups and owner only if given."
    parser.add_argument("name", metavar="NAME", type=_name, help="the principal, such as mia or payer")
    parser.add_argument("--kind", required=True, choices=KINDS)
    parser.add_argument("--roles", required=True, type=_roles, metavar="A,B", help=", ".join(ROLES))
    parser.add_argument("--groups", type=words, metavar="X,Y", help="groups that policies may ask for")
    parser.add_argument("--owner", type=_name, metavar="PERSON", help="whom an agent or worker acts for")
    _declare_common(parser, run_create)


def _declare_list(parser: Parser) -> None:
    parser.description = "List keys, newest first. What is shown is public; the secret is kept nowhere."
    _declare_common(parser, run_list)


def _declare_revoke(parser: Parser) -> None:
    parser.description = "End a key for good. It takes effect with the next request."
    parser.add_argument(
        "key",
        metavar="KEY",
        help="its id, as in `interlock key list`, the key itself, or whose only key it is",
    )
    _declare_common(parser, run_revoke)


def _declare_common(parser: Parser, run: Callable[[Namespace], int]) -> None:
    parser.add_argument("--tenant", type=_name, default="default", metavar="NAME", help="(default: default)")
    as_json(parser)
    connecting(parser)
    parser.set_defaults(run=run)


def _through_server(args: Namespace) -> bool:
    if given(args, "url"):
        return True
    store_named = given(args, "store") or os.environ.get("INTERLOCK_STORE")
    return not store_named and bool(os.environ.get("INTERLOCK_URL"))


def _page(args: Namespace) -> Page[Any]:
    from interlock.cli.connection import connected, listing
    from interlock.wire.pages import Page

    if not _through_server(args):
        return Page(items=on_store(args, _list(args)))

    with connected(args) as client:
        return listing(client, "api-keys", limit=_LIST_MAX, cursor=None, query={})


def _meant(args: Namespace) -> str:
    """The id of the key that is meant. Somebody's name means their only live key, and none of several."""
    from interlock.cli.connection import typed
    from interlock.rooms.identity.keys import id_of
    from interlock.wire.identity import ApiKey

    if key_id := id_of(args.key):
        return key_id
    keys = typed(_page(args).items, list[ApiKey])
    live = [key.key_id for key in keys if args.key == key.principal and not key.revoked_at]
    if len(live) > 1:
        raise Failed(f"{args.key} has {len(live)} keys; name one of {', '.join(live)}", Exit.USAGE)
    return live[0] if live else args.key


def _issued_by_server(args: Namespace, body: IssueKeyBody) -> object:
    from interlock.cli.connection import connected

    if args.tenant != "default":
        raise Failed(
            "a server makes keys in the tenant of the admin's own key; leave --tenant out, or use --store",
            Exit.USAGE,
        )
    with connected(args) as client:
        return client.call("POST", "principals", args.name, "keys", body=body)


def _issue(args: Namespace) -> Callable[[Service], Awaitable[IssuedKey]]:
    async def issue(service: Service) -> IssuedKey:
        from interlock.rooms.identity.model import PrincipalKind, Role
        from interlock.service.operator import issue_key
        from interlock.wire.identity import IssuedKey

        issued = await issue_key(
            service,
            args.name,
            kind=PrincipalKind(args.kind),
            roles=tuple(Role(role) for role in args.roles),
            groups=args.groups,
            owner=args.owner,
            tenant=args.tenant,
        )
        principal = issued.principal
        return IssuedKey(
            principal=principal.id, tenant=principal.tenant, key=issued.key, key_id=issued.key_id
        )

    return issue


def _list(args: Namespace) -> Callable[[Service], Awaitable[tuple[ApiKey, ...]]]:
    async def read(service: Service) -> tuple[ApiKey, ...]:
        from interlock.api.identity import key_view
        from interlock.service.operator import list_keys

        return tuple(key_view(*found) for found in await list_keys(service, args.tenant))

    return read


def _revoke(key_id: str) -> Callable[[Service], Awaitable[_EndedKey]]:
    async def revoke(service: Service) -> _EndedKey:
        from interlock.service.operator import revoke_key

        key = await revoke_key(service, key_id)
        return _EndedKey(key_id=key.id, principal=key.principal, tenant=key.tenant, revoked_at=key.revoked_at)

    return revoke


def _roles(text: str) -> tuple[str, ...]:
    found = words(text)
    if unknown := [role for role in found if role not in ROLES]:
        raise ArgumentTypeError(f"{unknown[0]!r} is not a role; roles are {', '.join(ROLES)}")
    return tuple(dict.fromkeys(found))


def _name(text: str) -> str:
    allowed = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:@-")
    if not 1 <= len(text) <= 100 or not set(text) <= allowed:
        raise ArgumentTypeError(f"{text!r} is not a name; use up to 100 letters, digits and _.:@-")
    return text

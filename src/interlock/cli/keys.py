"""`interlock keys`, `key …`, `principals` and `principal …`: who may call, with which API keys.

Keys are made on the store itself, or through a server as an admin.

The store is used unless a server is named: with `--url`, or with INTERLOCK_URL if no store is named.
"""

from __future__ import annotations

import os
from argparse import ArgumentTypeError, Namespace
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from interlock.cli.exits import Exit, Failed
from interlock.cli.init import on_store
from interlock.cli.options import Noun, Parser, finished, given, paging, wants_json
from interlock.cli.output import (
    Cell,
    Table,
    listed,
    remark,
    safe,
    say,
    say_fields,
    say_json,
    when,
)
from interlock.cli.values import words

if TYPE_CHECKING:
    from interlock.service.service import Service
    from interlock.wire.fields import Page
    from interlock.wire.identity import ApiKey, IssuedKey, IssueKeyBody, Principal


def say_keys(keys: Sequence[ApiKey]) -> None:
    """A table of keys."""
    (
        Table(keys)
        .column("KEY ID", lambda key: key.key_id)
        .column("OF", lambda key: key.principal, flexible=True)
        .column("KIND", lambda key: key.kind)
        .column("ROLES", lambda key: listed(key.roles), flexible=True)
        .column("GROUPS", lambda key: listed(key.groups), flexible=True, optional=True)
        .column("OWNER", lambda key: key.owner or "-", flexible=True, optional=True)
        .column("CREATED", lambda key: when(key.created_at), optional=True)
        .column("STATE", _state)
        .say()
    )


def _state(key: ApiKey) -> Cell:
    return Cell(f"revoked {when(key.revoked_at)}", "dim") if key.revoked_at else Cell("live", "green")


T = TypeVar("T")

KINDS = ("person", "agent", "worker", "service")
ROLES = ("submit", "work", "review", "operate", "audit", "admin")
_LIST_MAX = 1000
_LISTED = "List API keys, newest first. What is shown is public; the secret is kept nowhere."
_WHICH = "its id, as `interlock keys` lists it, the key itself, or the principal whose only key it is"


class _EndedKey(msgspec.Struct, frozen=True, kw_only=True):
    """What the store says of a key that was revoked; a server says all about it but the tenant."""

    key_id: str
    principal: str
    tenant: str = ""
    revoked_at: datetime | None = None


def declare_keys() -> Parser:
    """The options of `interlock keys`."""
    parser = Parser(
        "interlock keys",
        description=f"{_LISTED}\n(`interlock signing-keys` lists the keys that sign permits.)",
        examples=("interlock keys", "interlock keys --principal mia"),
    )
    _declare_list(parser)
    return parser


def declare_key() -> Parser:
    """The options of `interlock key …`."""
    parser = Noun(
        "interlock key",
        description="Create, show and revoke API keys: on the store itself, with or without a running server, or\n"
        "with --url through the server, with an admin's key.",
        examples=(
            "interlock key create mia --kind person --roles review,admin --groups finance",
            "KEY=$(interlock key create payer --kind agent --roles submit --owner mia)",
            "interlock key 0f3c…",
            "interlock key revoke 0f3c…",
        ),
    )
    _declare_create(parser.verb("create", "make a key for a principal; it is shown once, alone on stdout"))
    listing = parser.verb("list", "list keys, as `interlock keys` does")
    listing.description = _LISTED
    _declare_list(listing)
    show = parser.verb("show", "show whose key it is, and whether it is live")
    show.add_argument("key", metavar="KEY", help=_WHICH)
    _declare_common(show, run_show)
    _declare_revoke(parser.verb("revoke", "end a key for good"))
    return parser


def run_create(args: Namespace) -> int:
    """Make a key, and the principal if it is new."""
    from interlock.cli.connection import typed
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
    what = f"{args.kind}; roles {', '.join(args.roles)}{groups}"
    remark(f"API key for {issued.principal} ({what}) of tenant {issued.tenant}, shown only now:")
    say(issued.key)  # alone on stdout: KEY=$(interlock key create …)
    remark("Use it with `interlock login`, INTERLOCK_KEY or --api-key.")
    remark(f"End it with `interlock key revoke {issued.key_id}`.")
    return Exit.DONE


def run_list(args: Namespace) -> int:
    """List a tenant's keys."""
    from interlock.cli.connection import answer_page
    from interlock.wire.identity import ApiKey

    nothing = "no keys yet; make one with `interlock key create NAME --kind person --roles review`"
    if args.principal:
        nothing = f"{args.principal} has no key; make one with `interlock key create {args.principal}`"
    return answer_page(args, _page(args), kind=ApiKey, tell=say_keys, nothing=nothing)


def run_show(args: Namespace) -> int:
    """Show one key."""
    from interlock.cli.connection import answer, typed
    from interlock.wire.identity import ApiKey

    key_id = _meant(args)
    for key in typed(_page(args).items, list[ApiKey]):
        if key.key_id == key_id:
            return answer(args, key, _say_key)
    raise Failed(f"there is no key {key_id} here; `interlock keys` lists them", name="not_found")


def _say_key(key: ApiKey) -> None:
    say_fields(
        [
            ("key", key.key_id),
            ("principal", f"{safe(key.principal)} ({key.kind})"),
            ("state", _state(key)),
            ("roles", listed(key.roles)),
            ("groups", listed(key.groups, "")),
            ("owner", safe(key.owner or "")),
            ("created", f"{when(key.created_at)} by {safe(key.created_by or '-')}"),
        ]
    )


def run_revoke(args: Namespace) -> int:
    """End a key."""
    from interlock.cli.connection import answer, connected, typed

    key_id = _meant(args)
    if _through_server(args):
        with connected(args) as client:
            ended = client.call("POST", "api-keys", key_id, "revoke")
    else:
        ended = on_store(args, _revoke(key_id))

    def tell(found: object) -> None:
        key = typed(found, _EndedKey)
        say(f"key {key.key_id} of {key.principal} is revoked; the next request with it is refused")

    return answer(args, ended, tell)


def _declare_create(parser: Parser) -> None:
    parser.description = (
        "Make a key for a principal. Its roles are replaced; its groups and its owner only if they are given."
    )
    parser.add_argument("name", metavar="NAME", type=_name, help="the principal, such as mia or payer")
    parser.add_argument("--kind", required=True, choices=KINDS)
    parser.add_argument("--roles", required=True, type=_roles, metavar="A,B", help=", ".join(ROLES))
    parser.add_argument("--groups", type=words, metavar="X,Y", help="groups that policies may ask for")
    parser.add_argument("--owner", type=_name, metavar="PERSON", help="whom an agent or worker acts for")
    _declare_common(parser, run_create)


def _declare_list(parser: Parser) -> None:
    parser.add_argument("--principal", type=_name, metavar="NAME", help="those of this principal")
    _declare_common(parser, run_list)


def _declare_revoke(parser: Parser) -> None:
    parser.description = "End a key for good. It takes effect with the next request."
    parser.add_argument("key", metavar="KEY", help=_WHICH)
    _declare_common(parser, run_revoke)


def _declare_common(parser: Parser, run: Callable[[Namespace], int]) -> None:
    parser.add_argument("--tenant", type=_name, default="default", metavar="NAME", help="(default: default)")
    finished(parser, run)


def _through_server(args: Namespace) -> bool:
    if given(args, "url"):
        return True
    store_named = given(args, "store") or os.environ.get("INTERLOCK_STORE")
    return not store_named and bool(os.environ.get("INTERLOCK_URL"))


def _page(args: Namespace) -> Page[Any]:
    from interlock.cli.connection import connected, listing
    from interlock.wire.fields import Page

    if not _through_server(args):
        return Page(items=on_store(args, _list(args)))

    with connected(args) as client:
        query = {"principal": getattr(args, "principal", None)}
        return listing(client, "api-keys", limit=_LIST_MAX, cursor=None, query=query)


def _meant(args: Namespace) -> str:
    """The id of the key that is meant. A principal's name means its only live key; with several it is refused."""
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

        whose = getattr(args, "principal", None)
        return tuple(key_view(*found) for found in await list_keys(service, args.tenant, principal=whose))

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


def declare_principals() -> Parser:
    """The options of `interlock principals`."""
    parser = Parser(
        "interlock principals",
        description="List principals by name: the people, agents, workers and services that may call.",
        examples=("interlock principals", "interlock principals --json"),
    )
    paging(parser)
    return finished(parser, run_principals)


def declare_principal() -> Parser:
    """The options of `interlock principal …`."""
    parser = Noun(
        "interlock principal",
        description="Show a principal, change what it may do, or delete it. `interlock key create` makes one.",
        examples=(
            "interlock principal mia",
            "interlock principal set mia --roles review,audit --groups finance",
            "interlock principal delete old-bot",
        ),
    )
    show = parser.verb("show", "show what it may do, and how many live keys it has")
    show.add_argument("name", metavar="NAME", type=_name, help="the principal")
    finished(show, run_principal)
    change = parser.verb("set", "change its roles, groups or owner; what is not given stays")
    change.add_argument("name", metavar="NAME", type=_name, help="the principal")
    change.add_argument("--roles", type=_roles, metavar="A,B", help=", ".join(ROLES))
    change.add_argument("--groups", type=words, metavar="X,Y", help="groups that policies may ask for")
    change.add_argument("--owner", type=_name, metavar="PERSON", help="whom an agent or worker acts for")
    finished(change, run_set)
    delete = parser.verb("delete", "forget a principal that has no live key; its records stay")
    delete.add_argument("name", metavar="NAME", type=_name, help="the principal")
    finished(delete, run_delete)
    return parser


def run_principals(args: Namespace) -> int:
    """List principals."""
    from interlock.cli.connection import answer_list
    from interlock.wire.identity import Principal

    nothing = "no principals yet; `interlock key create NAME --kind person --roles review` makes one"
    command, tell = "interlock principals", _say_principals
    return answer_list(args, "principals", kind=Principal, tell=tell, command=command, nothing=nothing)


def run_principal(args: Namespace) -> int:
    """Show one principal."""
    return _one_principal(args, "GET", _say_principal)


def run_set(args: Namespace) -> int:
    """Change one principal."""
    from interlock.wire.identity import SetPrincipalBody

    if args.roles is None and args.groups is None and args.owner is None:
        raise Failed("say what to change: --roles, --groups or --owner", Exit.USAGE, name="usage")
    body = SetPrincipalBody(
        roles=None if args.roles is None else list(args.roles),
        groups=None if args.groups is None else list(args.groups),
        owner=args.owner,
    )
    return _one_principal(args, "PUT", _say_principal, body)


def run_delete(args: Namespace) -> int:
    """Delete one principal."""
    return _one_principal(args, "DELETE", lambda found: say(f"{safe(found.name)} is deleted"))


def _one_principal(
    args: Namespace,
    method: Literal["GET", "PUT", "DELETE"],
    tell: Callable[[Principal], object],
    body: Any = None,
) -> int:
    from interlock.cli.connection import answer_call
    from interlock.wire.identity import Principal

    return answer_call(args, method, "principals", args.name, kind=Principal, tell=tell, body=body)


def _say_principals(principals: Sequence[Principal]) -> None:
    (
        Table(principals)
        .column("NAME", lambda each: each.name, flexible=True)
        .column("KIND", lambda each: each.kind)
        .column("ROLES", lambda each: listed(each.roles), flexible=True)
        .column("GROUPS", lambda each: listed(each.groups), flexible=True, optional=True)
        .column("OWNER", lambda each: each.owner or "-", flexible=True, optional=True)
        .column("LIVE KEYS", lambda each: str(each.keys_live))
        .say()
    )


def _say_principal(principal: Principal) -> None:
    say_fields(
        [
            ("principal", f"{safe(principal.name)} ({principal.kind})"),
            ("roles", listed(principal.roles)),
            ("groups", listed(principal.groups, "")),
            ("owner", safe(principal.owner or "")),
            ("live keys", str(principal.keys_live)),
            ("created", when(principal.created_at)),
        ]
    )

"""`interlock grant`, `grants` and `revoke`: permissions for a task, issued by people."""

from __future__ import annotations

import base64
import json
from argparse import ArgumentTypeError, Namespace
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interlock.cli.exits import Exit, Failed
from interlock.cli.options import Noun, Parser, finished, paging, wants_json
from interlock.cli.output import (
    Cell,
    Table,
    exactly,
    safe,
    say,
    say_fields,
    warn,
    when,
)
from interlock.cli.values import count_to, duration, json_or_text

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from interlock.rooms.grants.model import Pin
    from interlock.sdk.client import Interlock
    from interlock.wire.grants import Grant, GrantTerms, SpendLimit

_STYLES = {"open": "green", "spent": "dim", "expired": "dim", "revoked": "red"}


def say_grants(grants: Sequence[Grant]) -> None:
    """A table of grants."""
    (
        Table(grants)
        .column("ID", lambda grant: grant.id)
        .column("TASK", lambda grant: grant.task, flexible=True)
        .column("STATE", _state)
        .column("USED", lambda grant: f"{grant.used}/{grant.uses}")
        .column("ENDS", lambda grant: when(grant.expires_at), optional=True)
        .column("BY", lambda grant: grant.approver or "-", optional=True)
        .column("PINS", lambda grant: _pins(grant) or "-", flexible=True, optional=True)
        .say()
    )


def say_grant(grant: Grant) -> None:
    """One grant, and who used it."""
    say_fields(
        [
            ("grant", grant.id),
            ("task", grant.task),
            ("state", _state(grant)),
            ("uses", f"{grant.used} of {grant.uses}"),
            ("pins", _pins(grant)),
            ("limits", ", ".join(_limit(grant, limit) for limit in grant.limits)),
            ("standing", "honoured where jobs are submitted" if grant.standing else ""),
            ("by", grant.approver or ""),
            ("signed by", grant.signed_by or ""),
            ("reason", grant.reason),
            ("ends", exactly(grant.expires_at) if grant.expires_at else ""),
            ("revoked", f"by {grant.revoked_by}" if grant.revoked_by else ""),
        ]
    )
    for use in grant.claims:
        at = exactly(use.claimed_at) if use.claimed_at else ""
        say(f"use {use.use}  {safe(use.claimed_by or '-')}  {at}  {safe(use.execution_id)}")


def _state(grant: Grant) -> Cell:
    return Cell(grant.state, _STYLES.get(grant.state, ""))


def _pins(grant: Grant) -> str:
    return ", ".join(_pin(path, value) for path, value in grant.pins.items())


def _pin(path: str, value: Any) -> str:
    if isinstance(value, dict):
        if "max" in value:
            return f"{path}<={value['max']}"
        if "glob" in value:
            return f"{path}~{value['glob']}"
    return f"{path}={json.dumps(value, ensure_ascii=False)}"


def _limit(grant: Grant, limit: SpendLimit) -> str:
    return f"{limit.path}<={limit.total_max} in all ({grant.spent.get(limit.path, 0)} spent)"


def pin(text: str) -> tuple[str, Any]:
    """`repo=billing`, `amount_cents<=500` or `branch~fix/*`; a value is JSON if it is JSON, else text."""
    from interlock.kernel.codec.pins import NotAPin, read_pin

    try:
        return read_pin(text, json_or_text)
    except NotAPin as wrong:
        raise ArgumentTypeError(f"{text!r} {wrong}") from None


def limit(text: str) -> dict[str, Any]:
    """`amount_cents<=50000`: what all uses together may add up to."""
    from interlock.kernel.codec.pins import NotAPin, number

    path, found, value = text.partition("<=")
    if not found or not path:
        raise ArgumentTypeError(f"{text!r} is not a limit; write PATH<=NUMBER")
    try:
        return {"path": path.strip(), "total_max": number(json_or_text(value.strip()))}
    except NotAPin as wrong:
        raise ArgumentTypeError(f"{text!r} {wrong}") from None


STATES = ("open", "spent", "expired", "revoked")


def declare_grant() -> Parser:
    """The options of `interlock grant`."""
    parser = Noun(
        "interlock grant",
        description="Issue a grant: allow a task a limited number of times, until a deadline. Or show one.\n"
        "`interlock grant TASK` issues a grant, and `interlock grant ID` shows the one with this id.",
        examples=(
            "interlock grant deploy --pin args.0=production --expires-in 15m",
            "interlock grant refund --pin 'amount_cents<=500' --uses 10 --limit 'amount_cents<=2000'",
            "interlock grant exec.pytest --standing --pin cwd=/srv/billing --uses 10",
            "interlock grant deploy --sign-with ~/.ssh/id_ed25519",
            "interlock grant gnt_…",
        ),
        otherwise=lambda word: "show" if word.startswith("gnt_") else "issue",
    )
    _declare_issue(parser.verb("issue", "allow a task a limited number of times, until a deadline"))
    show = parser.verb("show", "show one grant, and its uses")
    show.add_argument("id", metavar="ID", help="the grant's id, as `interlock grant` printed it")
    finished(show, run_show)
    return parser


def _declare_issue(parser: Parser) -> None:
    parser.description = "Allow a task a limited number of times, until a deadline. Pins only narrow it."
    parser.add_argument("task", metavar="TASK", help="what may be done")
    parser.add_argument(
        "--pin", type=pin, action="append", default=[], metavar="PIN",
        help="PATH=VALUE, PATH<=NUMBER or PATH~GLOB on an argument; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--limit", type=limit, action="append", default=[], metavar="PATH<=N",
        help="what all uses together may add up to; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--uses", type=count_to(1_000_000), default=1, metavar="N", help="how often (default 1)"
    )
    parser.add_argument(
        "--expires-in", type=duration, default="1h", metavar="1h", help="for how long (default 1h)"
    )
    parser.add_argument(
        "--standing", action="store_true", help="let it count as your approval of jobs that fit"
    )
    parser.add_argument("--reason", help="why; it is kept in the audit log")
    parser.add_argument("--sign-with", metavar="KEYFILE", help="sign it here with an Ed25519 private key")
    finished(parser, run_issue)


def declare_grants() -> Parser:
    """The options of `interlock grants`."""
    parser = Parser(
        "interlock grants",
        description="List grants, newest first.",
        examples=("interlock grants --state open", "interlock grants --task deploy --json"),
    )
    parser.add_argument("--task", help="only of this task")
    parser.add_argument("--state", choices=STATES, metavar="STATE", help=", ".join(STATES))
    paging(parser)
    return finished(parser, run_grants)


def declare_revoke() -> Parser:
    """The options of `interlock revoke`."""
    parser = Parser("interlock revoke", description="End a grant. Uses that were claimed stay claimed.")
    parser.add_argument("id", metavar="ID", help="the grant's id, as `interlock grant` printed it")
    parser.add_argument("--reason", help="why; it is kept in the audit log")
    return finished(parser, run_revoke)


def run_issue(args: Namespace) -> int:
    """Issue one grant."""
    from interlock.cli.connection import answer, connected

    pins = dict(args.pin)
    if len(pins) != len(args.pin):
        raise Failed("one path is pinned twice; keep one of them", Exit.USAGE)
    with connected(args) as client:
        granted = client.issue_grant(
            args.task,
            pins=pins,
            limits=args.limit,
            uses=args.uses,
            standing=args.standing,
            reason=args.reason,
            **_ending(client, args, pins),
        )
    return answer(args, granted, say_grant)


def run_grants(args: Namespace) -> int:
    """List grants."""
    from interlock.cli.connection import answer_list
    from interlock.wire.grants import Grant

    return answer_list(
        args,
        "grants",
        kind=Grant,
        tell=say_grants,
        command="interlock grants",
        nothing="no grants; issue one with `interlock grant TASK`",
        query={"task": args.task, "state": args.state},
    )


def run_show(args: Namespace) -> int:
    """Show one grant."""
    from interlock.cli.connection import answer_call
    from interlock.wire.grants import Grant

    return answer_call(args, "GET", "grants", args.id, kind=Grant, tell=say_grant)


def run_revoke(args: Namespace) -> int:
    """End one grant."""
    from interlock.cli.connection import answer, connected

    with connected(args) as client:
        revoked = client.revoke_grant(args.id, reason=args.reason)
    return answer(args, revoked, say_grant)


def _ending(client: Interlock, args: Namespace, pins: dict[str, Any]) -> dict[str, Any]:
    """When it ends; for a signed grant as it was signed, by the service's clock and not by this machine's."""
    if not args.sign_with:
        return {"expires_in": args.expires_in}
    from interlock.kernel.codec.durations import seconds_of

    key = load_private_key(args.sign_with)
    terms = client.get_grant_terms()
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
    if not wants_json(args):
        whose = f"{terms.approver} of tenant {terms.tenant}"
        warn(
            f"signed {args.task} as {terms.nonce} for {whose}: {args.uses} in all, until {exactly(expires_at)}"
        )


def load_private_key(path: str) -> Ed25519PrivateKey:
    """An Ed25519 key from an OpenSSH or PEM file; a passphrase is asked for if it has one."""
    try:
        content = Path(path).expanduser().read_bytes()
    except OSError as error:
        raise Failed(f"cannot read {path}: {error.strerror}", Exit.USAGE) from None
    try:
        return _decode(content, None)
    except TypeError:
        return _decode_with_passphrase(content, path)


def sign_grant(
    key: Ed25519PrivateKey,
    terms: GrantTerms,
    *,
    task: str,
    pins: dict[str, Any],
    limits: list[dict[str, Any]],
    uses: int,
    expires_seconds: int,
    standing: bool,
) -> dict[str, Any]:
    """The fields that make a grant a signed one: when it ends by the service's clock, its id, the signature."""
    from interlock.rooms.grants.model import SpendLimit, signed_bytes
    from interlock.rooms.grants.signatures import fingerprint_of

    expires_at = _whole(terms.now) + timedelta(seconds=expires_seconds)
    message = signed_bytes(
        tenant=terms.tenant,
        task=task,
        pins=_checked_pins(pins),
        limits=tuple(SpendLimit(**limit) for limit in limits),
        uses=uses,
        expires_at=expires_at,
        approver=terms.approver,
        nonce=terms.nonce,
        standing=standing,
    )
    public = base64.b64encode(key.public_key().public_bytes_raw()).decode()
    value = base64.b64encode(key.sign(message)).decode()
    return {
        "expires_at": expires_at,
        "nonce": terms.nonce,
        "signature": {"signer": fingerprint_of(public), "value": value},
    }


def _checked_pins(written: dict[str, Any]) -> tuple[Pin, ...]:
    from interlock.rooms.grants.model import BadPin, pins_of

    try:
        return pins_of(written)
    except BadPin as error:
        raise Failed(f"pin {error.path!r} {error}", Exit.USAGE) from None


def _decode(content: bytes, passphrase: bytes | None) -> Ed25519PrivateKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key

    if b"PRIVATE KEY" not in content:
        public = content.startswith((b"ssh-", b"ecdsa-", b"sk-", b"-----BEGIN PUBLIC"))
        found = "that is a public key" if public else "that is no OpenSSH or PEM private key"
        raise Failed(f"{found}; sign with the private one, such as ~/.ssh/id_ed25519", Exit.USAGE)
    load = load_ssh_private_key if b"BEGIN OPENSSH PRIVATE KEY" in content else load_pem_private_key
    try:
        key = load(content, passphrase)
    except (ValueError, UnsupportedAlgorithm) as error:
        if passphrase is None and "encrypted" in str(error).lower():
            raise TypeError(str(error)) from None
        advice = "; install bcrypt to read it" if "bcrypt" in str(error) else ""
        advice = advice or ("; is the passphrase right?" if passphrase else "")
        raise Failed(f"the private key cannot be read: {error}{advice}", Exit.USAGE) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise Failed("grants are signed with Ed25519 keys; make one with `ssh-keygen -t ed25519`", Exit.USAGE)
    return key


def _decode_with_passphrase(content: bytes, path: str) -> Ed25519PrivateKey:
    try:
        return _decode(content, _passphrase(path))
    except TypeError as error:
        raise Failed(f"the private key cannot be read: {error}", Exit.USAGE) from None


def _passphrase(path: str) -> bytes:
    """Ask at the terminal, and nowhere else: what is typed anywhere else is shown."""
    import getpass
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", getpass.GetPassWarning)
            return getpass.getpass(f"passphrase of {path}: ").encode()
    except (getpass.GetPassWarning, EOFError, OSError):
        raise Failed(
            f"{path} has a passphrase, and there is no terminal to ask for it; sign at one", Exit.USAGE
        ) from None


def _whole(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)

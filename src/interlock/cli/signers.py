"""`interlock signers` and `signer …`: whose keys may sign grants. `interlock signing-keys` and `signing-key …`: the
keys that the service signs permits with."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.cli.exits import Exit, Failed
from interlock.cli.options import Noun, Parser, finished, paging
from interlock.cli.output import Cell, Table, exactly, say, say_fields, when
from interlock.cli.values import words

if TYPE_CHECKING:
    from interlock.sdk.client import Interlock
    from interlock.wire.grants import Signer
    from interlock.wire.identity import PermitKey


def declare_signers() -> Parser:
    """The options of `interlock signers`."""
    parser = Parser(
        "interlock signers",
        description="List the Ed25519 keys that people sign grants with.",
        examples=("interlock signers", "interlock signers --json"),
    )
    paging(parser)
    return finished(parser, run_signers)


def declare_signer() -> Parser:
    """The options of `interlock signer …`."""
    parser = Noun(
        "interlock signer",
        description="Register, show and revoke the Ed25519 keys that people sign grants with. Admins change them.",
        examples=(
            "interlock signer add ~/.ssh/id_ed25519.pub --person ada",
            "interlock signer SHA256:…",
            "interlock signer revoke SHA256:…",
            "interlock signer require 'deploy,prod.*'",
        ),
    )
    add = parser.verb("add", "register a public key")
    add.add_argument("public_key", metavar="KEY", help="a .pub file, or `ssh-ed25519 AAAA…`, PEM or base64")
    add.add_argument("--person", metavar="NAME", help="whose it is (default: yours)")
    show = parser.verb("show", "show one key, and whose it is")
    show.add_argument("fingerprint", metavar="FINGERPRINT", help="as `ssh-keygen -lf` prints it")
    revoke = parser.verb("revoke", "stop trusting a key")
    revoke.add_argument("fingerprint", metavar="FINGERPRINT", help="as `ssh-keygen -lf` prints it")
    require = parser.verb("require", "say which tasks need a signed grant")
    require.add_argument(
        "tasks", metavar="TASKS", type=_tasks, help="all of them: names or globs, or - for none"
    )
    for verb, run in ((add, run_add), (show, run_show), (revoke, run_revoke), (require, run_require)):
        finished(verb, run)
    return parser


def run_add(args: Namespace) -> int:
    """Register one key."""
    from interlock.cli.connection import answer, connected

    with connected(args) as client:
        signer = client.add_signer(_public_key(args.public_key), person=args.person)
    return answer(args, signer, lambda signer: say(f"{signer.fingerprint} now signs for {signer.person}"))


def run_signers(args: Namespace) -> int:
    """List the keys of signers."""
    from interlock.cli.connection import answer_list
    from interlock.wire.grants import Signer

    nothing = "no signers yet; register one with `interlock signer add KEY.pub`"
    command = "interlock signers"
    return answer_list(args, "signers", kind=Signer, tell=say_signers, command=command, nothing=nothing)


def run_show(args: Namespace) -> int:
    """Show one key."""
    from interlock.cli.connection import answer_one
    from interlock.wire.grants import Signer

    def is_it(signer: Signer) -> bool:
        return signer.fingerprint == args.fingerprint

    return answer_one(
        args, "signers", kind=Signer, is_it=is_it, tell=say_signer, name=f"signer {args.fingerprint!r}"
    )


def run_revoke(args: Namespace) -> int:
    """Stop trusting one key."""
    from interlock.cli.connection import answer, connected

    with connected(args) as client:
        signer = client.revoke_signer(args.fingerprint)
    then = "is no longer trusted; what is left of grants signed with it cannot be claimed"
    return answer(args, signer, lambda signer: say(f"{signer.fingerprint} {then}"))


def run_require(args: Namespace) -> int:
    """Set which tasks need a signed grant."""
    from interlock.cli.connection import answer, connected, typed
    from interlock.wire.grants import GrantTerms, GrantTermsBody

    with connected(args) as client:
        before = _signed_tasks(client)
        found = client.call("PUT", "grants", "terms", body=GrantTermsBody(signed_tasks=list(args.tasks)))

    def tell(found: object) -> None:
        terms = typed(found, GrantTerms)
        say(f"signed grants only: {', '.join(terms.signed_tasks) or 'nothing'}")
        if dropped := [task for task in before if task not in terms.signed_tasks]:
            say(f"no longer: {', '.join(dropped)}")

    return answer(args, found, tell)


def _signed_tasks(client: Interlock) -> Sequence[str]:
    """Those that need a signed grant now. In a store that the next call makes, none does."""
    from interlock.sdk.outcomes import NoStore

    try:
        return client.get_grant_terms().signed_tasks
    except NoStore:
        return ()


def _public_key(given: str) -> str:
    """A public key from a file or the words themselves. Anything else stays here: it might be the private one."""
    from interlock.rooms.grants.model import NotAPublicKey
    from interlock.rooms.grants.signatures import read_public_key

    text = _key_text(given)
    if "PRIVATE KEY" in text:
        raise Failed("that is a private key, and it was sent nowhere; give the public one (.pub)", Exit.USAGE)
    try:
        return read_public_key(text)
    except NotAPublicKey as refused:
        # It is not said again: it might be a secret.
        is_name = text is given and len(given.split()) == 1
        missing = "there is no such file, and it is no public key itself; name the .pub file"
        raise Failed(missing if is_name else str(refused), Exit.USAGE) from None


def _key_text(given: str) -> str:
    try:
        path = Path(given).expanduser()
        if path.is_file():
            return path.read_text(errors="replace")
    except OSError as error:
        raise Failed(f"the key cannot be read: {error.strerror}", Exit.USAGE) from None
    if path.suffix == ".pub":
        raise Failed(f"there is no file {given}", Exit.USAGE)
    return given


def _tasks(text: str) -> tuple[str, ...]:
    return () if text == "-" else words(text)


def say_signers(signers: Sequence[Signer]) -> None:
    """A table of the keys that may sign grants."""

    (
        Table(signers)
        .column("FINGERPRINT", lambda signer: signer.fingerprint)
        .column("PERSON", lambda signer: signer.person)
        .column("STATE", _state)
        .column("ADDED BY", lambda signer: signer.added_by or "-", optional=True)
        .say()
    )


def say_signer(signer: Signer) -> None:
    """Everything about one key that may sign grants."""
    added = f"{when(signer.added_at)} by {signer.added_by or '-'}"
    revoked = f"{when(signer.revoked_at)} by {signer.revoked_by or '-'}" if signer.revoked_at else ""
    say_fields(
        [
            ("signer", signer.fingerprint),
            ("person", signer.person),
            ("state", _state(signer)),
            ("added", added),
            ("revoked", revoked),
            ("public key", signer.public_key),
        ]
    )


def _state(signer: Signer) -> Cell:
    return Cell("revoked", "red") if signer.revoked_at else Cell("trusted", "green")


def declare_signing_keys() -> Parser:
    """The options of `interlock signing-keys`."""
    parser = Parser(
        "interlock signing-keys",
        description="List the public keys that permits are checked with. Every permit in circulation was signed with\n"
        "one of them. (`interlock keys` lists the API keys of people and programs.)",
        examples=("interlock signing-keys", "interlock signing-keys --json"),
    )
    return finished(parser, run_signing_keys)


def declare_signing_key() -> Parser:
    """The options of `interlock signing-key …`."""
    parser = Noun(
        "interlock signing-key",
        description="Show a key that signs permits, or replace it with a new one.",
        examples=(
            "interlock signing-key KID",
            "interlock signing-key rotate",
            "interlock signing-key rotate --revoke",
        ),
    )
    show = parser.verb("show", "show one public key")
    show.add_argument("kid", metavar="KID", help="its id, as `interlock signing-keys` lists it")
    finished(show, run_signing_key)
    rotate = parser.verb("rotate", "sign with a new key from now on")
    rotate.add_argument(
        "--lead-seconds", type=int, metavar="N", default=300,
        help="seconds from its publication until it signs (default 300)",
    )  # fmt: skip
    rotate.add_argument(
        "--revoke", action="store_true", help="a key was stolen: withdraw every other key at once"
    )
    finished(rotate, run_rotate)
    return parser


def run_signing_keys(args: Namespace) -> int:
    """List the keys of permits."""
    from interlock.cli.connection import answer, connected

    with connected(args) as client:
        found = client.signing_keys()
    return answer(args, found, lambda found: _say_signing_keys(found.keys))


def run_signing_key(args: Namespace) -> int:
    """Show one key of permits."""
    from interlock.cli.connection import answer, connected

    with connected(args) as client:
        keys = client.signing_keys().keys
    for key in keys:
        if key.kid == args.kid:
            return answer(args, key, _say_signing_key)
    raise Failed(f"no signing key {args.kid} is published; see `interlock signing-keys`", name="not_found")


def run_rotate(args: Namespace) -> int:
    """Sign permits with a new key."""
    from interlock.cli.connection import answer, connected

    with connected(args) as client:
        found = client.rotate_signing_keys(lead_seconds=args.lead_seconds, revoke=args.revoke)
    return answer(args, found, lambda found: _say_signing_keys(found.keys))


def _say_signing_keys(keys: Sequence[PermitKey]) -> None:
    (
        Table(keys)
        .column("KEY", lambda key: key.kid)
        .column("SIGNS FROM", lambda key: when(key.signs_from))
        .column("PUBLISHED UNTIL", lambda key: when(key.published_until))
        .say()
    )


def _say_signing_key(key: PermitKey) -> None:
    until = f"{when(key.published_until)} ({exactly(key.published_until)})" if key.published_until else ""
    say_fields(
        [
            ("signing key", key.kid),
            ("algorithm", f"{key.alg} ({key.crv})"),
            ("public key", key.x),
            ("signs from", f"{when(key.signs_from)} ({exactly(key.signs_from)})"),
            ("published until", until),
        ]
    )

"""`interlock signer add|list|revoke|require`: whose keys may sign grants."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.cli.exits import Exit, Failed
from interlock.cli.options import Parser, finished, told
from interlock.cli.output import Cell, Table, say
from interlock.cli.values import words

if TYPE_CHECKING:
    from interlock.sdk.client import Interlock
    from interlock.wire.grants import Signer


def declare_signer() -> Parser:
    """The options of `interlock signer`."""
    parser = Parser(
        "interlock signer",
        description="Register the Ed25519 keys that people sign grants with. Admins only.",
        examples=(
            "interlock signer add ~/.ssh/id_ed25519.pub --person ada",
            "interlock signer list",
            "interlock signer revoke SHA256:…",
            "interlock signer require 'deploy,prod.*'",
        ),
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="add|list|revoke|require")
    add = verbs.add_parser("add", **told("register a public key"))
    add.add_argument("public_key", metavar="KEY", help="a .pub file, or `ssh-ed25519 AAAA…`, PEM or base64")
    add.add_argument("--person", metavar="NAME", help="whose it is (default: yours)")
    listing = verbs.add_parser("list", **told("list registered keys"))
    revoke = verbs.add_parser("revoke", **told("stop trusting a key"))
    revoke.add_argument("fingerprint", metavar="FINGERPRINT", help="as `ssh-keygen -lf` prints it")
    require = verbs.add_parser("require", **told("say which tasks need a signed grant"))
    require.add_argument(
        "tasks", metavar="TASKS", type=_tasks, help="all of them: names or globs, or - for none"
    )
    for verb, run in ((add, run_add), (listing, run_list), (revoke, run_revoke), (require, run_require)):
        finished(verb, run)
    return parser


def run_add(args: Namespace) -> int:
    """Register one key."""
    from interlock.cli.connection import answer, connected

    with connected(args) as client:
        signer = client.signer_add(_public_key(args.public_key), person=args.person)
    return answer(args, signer, lambda signer: say(f"{signer.fingerprint} now signs for {signer.person}"))


def run_list(args: Namespace) -> int:
    """List keys."""
    from interlock.cli.connection import answer_page, connected, listing
    from interlock.wire.grants import Signer

    with connected(args) as client:
        page = listing(client, "signers", limit=1000, cursor=None, query={})
    nothing = "no keys yet; register one with `interlock signer add KEY.pub`"
    return answer_page(args, page, kind=Signer, tell=say_signers, nothing=nothing)


def run_revoke(args: Namespace) -> int:
    """Stop trusting one key."""
    from interlock.cli.connection import answer, connected

    with connected(args) as client:
        signer = client.signer_revoke(args.fingerprint)
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
        return client.grant_terms().signed_tasks
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

    def state(signer: Signer) -> Cell:
        return Cell("revoked", "red") if signer.revoked_at else Cell("trusted", "green")

    (
        Table(signers)
        .column("FINGERPRINT", lambda signer: signer.fingerprint)
        .column("PERSON", lambda signer: signer.person)
        .column("STATE", state)
        .column("ADDED BY", lambda signer: signer.added_by or "-", optional=True)
        .say()
    )

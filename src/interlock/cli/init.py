"""`interlock init`: a store in this folder, with a policy in force and an example to run. It overwrites nothing."""

from __future__ import annotations

import argparse
import contextlib
from argparse import Namespace
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from interlock.cli.exits import Exit, Failed
from interlock.cli.options import Parser, as_json, given, wants_json
from interlock.cli.output import say, say_json, without_password

if TYPE_CHECKING:
    from interlock.service.service import Service

_POLICY = """\
# yaml-language-server: $schema=.interlock/schemas/policy.schema.json
#
# What may happen, and who must agree first. The first rule that matches decides.
# After a change: interlock policy check policy.yaml, then interlock policy apply policy.yaml
version: v1
default: deny                          # what no rule matches does not happen

rules:
  - id: small-payments-pass
    when: {topic: finance.payment.execute}
    if: has(payload.amount_cents) && payload.amount_cents <= 10000  # up to 100.00
    decision: allow

  - id: larger-payments-wait-for-a-person
    when: {topic: finance.payment.execute}
    decision: require_human
    approval:
      expires_in: 4h                   # then it is denied
      # quorum: 2                      # how many people must agree; default 1
      # groups: [finance]              # who may decide; default: every person with the role review
"""

_TASKS = """\
# yaml-language-server: $schema=.interlock/schemas/interlock.schema.json
#
# Commands that run only with permission, and once: `interlock exec statement`.
# A person permits one use with `interlock grant statement`.
tasks:
  statement:
    command: [cat, bank.txt]
    timeout: 1m
    # cwd: reports                     # where it runs; default: the folder of this file
    # env: [BANK_TOKEN]                # variables that it is given beside the usual ones
    # approval: {groups: [finance]}    # who must have agreed
"""

_EXAMPLE = '''\
"""Two payments. Run this, let a second person decide, and run it again: each is paid once."""

from interlock import Interlock, Rejected, StillPending

il = Interlock()  # the store in this folder


@il.gate("finance.payment.execute", key=lambda invoice, **_: invoice, wait=0)
def pay(invoice: str, amount_cents: int) -> str:
    with open("bank.txt", "a") as bank:  # your bank goes here
        bank.write(f"{invoice} {amount_cents}\\n")
    return f"paid {amount_cents / 100:.2f}"


for invoice, amount_cents in (("inv-1", 5_000), ("inv-2", 25_000)):
    try:
        print(f"{invoice}: {pay(invoice, amount_cents)}")
    except StillPending as held:
        print(f"{invoice}: held until a person decides on {held.job_id}")
    except Rejected as rejected:
        print(f"{invoice}: {rejected}")
'''

_FILES = {
    "policy.yaml": (_POLICY, "what may happen: small payments pass, larger ones wait for a person"),
    "interlock.yaml": (_TASKS, "commands that run only with permission"),
    "pay.py": (_EXAMPLE, "an example to run: two payments"),
}
_SCHEMAS = ("policy.schema.json", "interlock.schema.json")
_NEXT = (
    ("python pay.py", "one payment is made, one is held"),
    ("ANN=$(interlock key create ann --kind person --roles review)", ""),
    ("interlock review --api-key $ANN", "ann, a second person, decides"),
    ("python pay.py", "what she approved is paid, once"),
)


def declare_init() -> Parser:
    """The options of `interlock init`."""
    parser = Parser(
        "interlock init",
        description="Make a store in this folder (.interlock/), and beside it a policy, tasks and an example to run.\n"
        "The policy is put in force if none is. It overwrites nothing of yours: files and stores that are there are\n"
        "kept. Only .interlock/schemas/, for your editor, is brought up to date.\n"
        "With --bare, or for a store elsewhere, only the store is made. `interlock serve`, `interlock key create`\n"
        "and, where no store is named, the first command that writes make a store too; no other command does.",
        examples=(
            "interlock init",
            "interlock init --bare",
            "interlock init --store postgresql://interlock@db/interlock",
        ),
    )
    parser.add_argument("--bare", action="store_true", help="make the store alone, and write no files")
    parser.add_argument(
        "--store", metavar="URL", default=argparse.SUPPRESS,
        help="sqlite:///path or postgresql://… [INTERLOCK_STORE; default: sqlite:///.interlock/interlock.db]",
    )  # fmt: skip
    as_json(parser)
    parser.set_defaults(run=run_init)
    return parser


def run_init(args: Namespace) -> int:
    """Make what is not there, and say what was made."""
    import asyncio

    from interlock.cli.connection import translated
    from interlock.service.settings import EMBEDDED_STORE, make_store, store_named

    # Not the nearest one: `interlock init` makes the store in this folder.
    url = store_named(given(args, "store")) or EMBEDDED_STORE
    if url.startswith("memory:"):
        raise Failed("a store in memory ends with its process; name a file or a database", Exit.USAGE)
    is_bare = args.bare or url != EMBEDDED_STORE
    above = _store_above() if url == EMBEDDED_STORE else None
    if not is_bare:
        _check_policy_here()
    with translated(args):
        was_made = asyncio.run(make_store(url))
    wrote, updated = ([], []) if is_bare else _write_files()
    snapshot = None if is_bare else on_store(args, _activate)
    shown = without_password(url)
    if wants_json(args):
        told: dict[str, Any] = {"store": shown, "made": was_made, "wrote": wrote, "policy": snapshot}
        say_json(told)
        return Exit.DONE
    say(*(f"wrote {name:<15} {_FILES[name][1]}" for name in wrote))
    say(*(f"kept  {name:<15} it was here already" for name in _FILES if name not in wrote and not is_bare))
    say(*(f"updated {name}, for your editor" for name in updated))
    say(f"made a store: {shown}" if was_made else f"there is a store already: {shown}")
    if above and was_made:
        say(f"In this folder it takes the place of the one above: {above}")
    _say_next(was_made=was_made, is_activated=snapshot is not None, wrote=wrote, is_bare=is_bare)
    return Exit.DONE


def _say_next(*, was_made: bool, is_activated: bool, wrote: list[str], is_bare: bool) -> None:
    if is_bare:
        if was_made:
            say(
                "Next: interlock policy apply FILE, which says what may happen; interlock serve, to share it."
            )
        return
    if is_activated:
        say("policy.yaml is in force")
    elif "policy.yaml" in wrote:
        say("The policy in force was not changed; to change it: interlock policy apply policy.yaml")
    _warn_of_login()
    if is_activated and _holds(Path("pay.py"), _EXAMPLE):
        width = max(len(command) for command, meaning in _NEXT if meaning)
        say(
            "",
            "Next:",
            *(f"  {command:<{width}}  {meaning and '# '}{meaning}".rstrip() for command, meaning in _NEXT),
        )


def _warn_of_login() -> None:
    """Say so if the next commands would not use the store that was just made."""
    from interlock.cli.login import kept_login, tell_unused_store

    with contextlib.suppress(Failed):  # Of a login that cannot be read the next command tells.
        if kept_login() is not None:
            tell_unused_store()


def _check_policy_here() -> None:
    """Refuse a policy file that could not be put in force, before anything is made."""
    from interlock.cli.policy_files import read_policy

    if Path("policy.yaml").exists():
        read_policy("policy.yaml")


def _write_files() -> tuple[list[str], list[str]]:
    """Write what is not there, and schemas of another version again; returns the names of both."""
    folder = Path(".interlock/schemas")
    try:
        folder.mkdir(exist_ok=True)
        updated = [f"{folder}/{name}" for name in _SCHEMAS if _update(folder / name, _schema(name))]
        return [name for name, (text, _) in _FILES.items() if _write_new(Path(name), text)], updated
    except OSError as error:
        raise Failed(f"{error.filename} cannot be written: {error.strerror}") from None


def _update(path: Path, text: str) -> bool:
    """Write a file of ours; returns whether another version of it was there."""
    if _write_new(path, text) or _holds(path, text):
        return False
    path.write_text(text, encoding="utf-8")
    return True


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_bytes() == text.encode()


def _write_new(path: Path, text: str) -> bool:
    """Write a file unless it is there; returns whether it was written."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return False
    return True


def _schema(name: str) -> str:
    from importlib.resources import files

    return (files("interlock") / "schemas" / name).read_text(encoding="utf-8")


async def _activate(service: Service) -> str | None:
    from interlock.service.operator import activate_first_policy_file

    return await activate_first_policy_file(service, Path("policy.yaml"))


def _store_above() -> str | None:
    from interlock.service.settings import EMBEDDED_STORE, embedded_store

    found = embedded_store()
    return None if found == EMBEDDED_STORE else found


T = TypeVar("T")


def on_store(args: Namespace, work: Callable[[Service], Awaitable[T]], *, makes_store: bool = False) -> T:
    """Do something on the store that the options or the environment name."""
    import asyncio

    from interlock.cli.connection import translated
    from interlock.service.service import open_service
    from interlock.service.settings import settings_from

    async def opened() -> T:
        settings = settings_from(store=given(args, "store"), workers=1)
        async with open_service(settings, sweeping=False, makes_store=makes_store) as service:
            return await work(service)

    with translated(args):
        return asyncio.run(opened())

"""`interlock touch`: report files that changed, so that whoever works on them learns of it.

In a git repository a file's key is `repo:<name>/<path>` and its version the id of its content, the same that git
commits. Elsewhere the key is `file:<absolute path>` and the version a digest.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from interlock.cli.exits import Exit, Failed
from interlock.cli.options import Parser, as_json, connecting, wants_json

if TYPE_CHECKING:
    from interlock.sdk.shared_work import Touched

_TOUCHES_MAX = 100
_SHOWN_MAX = 10


def declare_touch() -> Parser:
    """The options of `interlock touch`."""
    parser = Parser(
        "interlock touch",
        description="Report that you changed files, or any other target.",
        examples=(
            "interlock touch billing/invoice.py",
            "interlock touch --commit HEAD",
            "interlock touch --key crm:customer/4711 --version 17 --summary 'new address'",
        ),
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="files that you changed")
    parser.add_argument("--commit", metavar="REV", help="the paths that a commit changed, in this repository")
    parser.add_argument("--since", metavar="REV", help="the paths that changed between REV and HEAD")
    parser.add_argument(
        "--repo", metavar="NAME", help="the repository's name in keys (default: its folder's)"
    )
    parser.add_argument("--key", dest="target", metavar="KEY", help="a target that is not a file")
    parser.add_argument("--version", metavar="VERSION", help="with --key: its version now")
    parser.add_argument("--previous-version", metavar="VERSION", help="with --key: the one you started from")
    parser.add_argument("--summary", default="", help="what you did, in a few words")
    as_json(parser)
    connecting(parser, key_option="--api-key")
    parser.set_defaults(run=run_touch)
    return parser


def run_touch(args: Namespace) -> int:
    """Report the changes, and say whose work they collide with."""
    from msgspec import to_builtins

    from interlock.cli.connection import connected
    from interlock.cli.output import say_json

    try:
        changes = _changes(args)
    except FileNotFoundError:
        raise Failed("this folder was removed; change to one that exists", Exit.USAGE) from None
    with connected(args) as client:
        done = [
            touched
            for start in range(0, len(changes), _TOUCHES_MAX)
            for touched in client.touch_many(changes[start : start + _TOUCHES_MAX])
        ]
    if wants_json(args):
        say_json({"items": to_builtins(done)})
    else:
        _tell(done)
    return Exit.DONE


def _changes(args: Namespace) -> list[dict[str, str]]:
    from interlock.cli.changed_files import Repository, changes_of_files

    ways = [bool(args.files), bool(args.commit), bool(args.since), bool(args.target)]
    if sum(ways) != 1:
        raise Failed("name files, --commit, --since or --key, one of them", Exit.USAGE)
    if args.target:
        if not args.version:
            raise Failed("--key needs --version: an etag, a digest or a number of your own", Exit.USAGE)
        named = {"key": args.target, "version": args.version, "summary": args.summary}
        started = args.previous_version
        return [{**named, "previous_version": started} if started else named]
    if args.version or args.previous_version:
        raise Failed("--version goes with --key: what files and commits hold is their version", Exit.USAGE)
    if args.files:
        found = changes_of_files(args.files, args.repo)
    else:
        repository = Repository.here(args.repo)
        found = repository.changes_in(args.commit) if args.commit else repository.changes_since(args.since)
    return [{**change, "summary": args.summary} if args.summary else change for change in found]


def _tell(done: Sequence[Touched]) -> None:
    from interlock.cli.output import painted, say
    from interlock.cli.wording import counted, safe

    say(f"reported {counted(len(done), 'change')}")
    say(*(f"  {safe(each.key)} is {_state(each.version)}" for each in done[:_SHOWN_MAX]))
    for each in done:
        if each.conflict_id:
            warning = (
                f"! somebody works on {safe(each.key)}; see `interlock conflict show {each.conflict_id}`"
            )
            say(painted(warning, "yellow"))


def _state(version: str) -> str:
    from interlock.cli.changed_files import DELETED
    from interlock.cli.wording import safe

    return "reported as deleted" if version == DELETED else f"at version {safe(version)}"

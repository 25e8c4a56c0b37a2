"""`interlock touch`: report changed files, so that others who work on them learn of it.

In a git repository a file's key is `repo:<name>/<path>` and its version is git's id of its content. Elsewhere the key
is `file:<absolute path>` and the version is a digest.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from interlock.cli.exits import Exit, Failed
from interlock.cli.options import Noun, Parser, as_json, finished, in_session, session_of, wants_json
from interlock.cli.output import counted, painted, safe, say, say_json

if TYPE_CHECKING:
    from interlock.wire.shared import Touched

DELETED = "deleted"
_GIT_SECONDS = 60


class Repository(NamedTuple):
    """A git working tree, and its name in keys: the same in every clone and worktree of one repository."""

    root: Path
    name: str

    @classmethod
    def here(cls, name: str | None, folder: Path | None = None) -> Repository:
        """The repository around a folder; its name is what was given, git's `interlock.repo`, or found in git."""
        found = cls.around(folder or Path.cwd(), name)
        if found is None:
            raise Failed("this is not a git repository; name files instead, or use --target", Exit.USAGE)
        return found

    @classmethod
    def around(cls, folder: Path, name: str | None) -> Repository | None:
        """As `here`, or None outside of any repository."""
        top = _git(folder, "rev-parse", "--show-toplevel")
        if top is None:
            return None
        root = Path(top.rstrip("\n"))
        configured = _git(root, "config", "--get", "interlock.repo")
        return cls(root, name or (configured or "").strip() or _name_in_git(root))

    def key(self, path: str) -> str:
        """The key of a path below the root. A name may hold what no text does: a key spells that out."""
        return f"repo:{safe(self.name)}/{safe(path)}"

    def change_of(self, file: Path) -> dict[str, str]:
        """One file of the working tree, as git would commit it; it started from what HEAD has."""
        path = file.relative_to(self.root).as_posix()
        change = {"key": self.key(path), "version": self._content_id(file, path)}
        head = _git(self.root, "rev-parse", "--verify", "--quiet", f"HEAD:{path}")
        return {**change, "previous_version": head.strip()} if head else change

    def changes_in(self, revision: str) -> list[dict[str, str]]:
        """The paths that a commit changed against its first parent."""
        parent = _git(self.root, "rev-parse", "--verify", "--quiet", f"{revision}^1")
        before = parent.strip() if parent else self._empty_tree()
        return self._between(before, revision)

    def changes_since(self, revision: str) -> list[dict[str, str]]:
        """The paths that changed between a revision and HEAD."""
        return self._between(revision, "HEAD")

    def _between(self, before: str, after: str) -> list[dict[str, str]]:
        raw = _git(self.root, "diff", "--raw", "-z", "--no-renames", "--no-abbrev", before, after, "--")
        if raw is None:
            raise Failed(f"git knows no revision {after!r} here", Exit.USAGE)
        fields = raw.split("\0")
        return [self._change(*pair) for pair in zip(fields[:-1:2], fields[1::2], strict=False)]

    def _change(self, entry: str, path: str) -> dict[str, str]:
        _, _, before, after, status = entry.split(" ")
        change = {"key": self.key(path), "version": DELETED if status.startswith("D") else after}
        return change if not before.strip("0") else {**change, "previous_version": before}

    def _content_id(self, file: Path, path: str) -> str:
        if not file.exists():
            return DELETED
        found = _git(self.root, "hash-object", "--", path)
        if found is None:
            raise Failed(f"{file} cannot be read", Exit.USAGE)
        return found.strip()

    def _empty_tree(self) -> str:
        return (_git(self.root, "hash-object", "-t", "tree", "--stdin") or "").strip()


def _name_in_git(root: Path) -> str:
    """The last part of where `origin` is; without one, the folder of the main worktree.

    Two agents who share a repository work in two clones or worktrees, whose folders have different names.
    """
    origin = _git(root, "config", "--get", "remote.origin.url")
    last = re.split(r"[/:\\]", (origin or "").strip().rstrip("/\\"))[-1].removesuffix(".git")
    if last:
        return last
    common = _git(root, "rev-parse", "--path-format=absolute", "--git-common-dir")
    folder = Path(common.rstrip("\n")) if common else root / ".git"
    return folder.parent.name if folder.name == ".git" else folder.name.removesuffix(".git")


def changes_of_files(files: Sequence[str], name: str | None) -> list[dict[str, str]]:
    """Files as targets, each once, with their versions now."""
    changes: dict[str, dict[str, str]] = {}
    for each in files:
        file = Path(each).absolute()
        if file.is_dir():
            raise Failed(f"{each} is a folder; name the files that changed in it", Exit.USAGE)
        repository = Repository.around(_nearest_folder(file), name)
        change = repository.change_of(file.resolve()) if repository else _plain_change(file)
        changes[change["key"]] = change
    return list(changes.values())


def hooks_folder(folder: Path) -> Path:
    """Where this repository's hooks live, also if git was told to keep them elsewhere."""
    found = _git(folder, "rev-parse", "--path-format=absolute", "--git-path", "hooks")
    if found is None:
        raise Failed("this is not a git repository; run it inside one", Exit.USAGE)
    return Path(found.rstrip("\n"))


def _plain_change(file: Path) -> dict[str, str]:
    key = f"file:{safe(str(file))}"
    try:
        return {"key": key, "version": f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"}
    except (FileNotFoundError, NotADirectoryError):
        return {"key": key, "version": DELETED}
    except OSError as error:
        raise Failed(f"{file} cannot be read: {error.strerror}", Exit.USAGE) from None


def _nearest_folder(file: Path) -> Path:
    return next(folder for folder in file.parents if folder.is_dir())


def _git(folder: Path, *words: str) -> str | None:
    """What git answers, or None if it does not."""
    try:
        done = subprocess.run(  # noqa: S603 - no shell, and git is whichever the user uses
            ["git", "-C", str(folder), *words],  # noqa: S607
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            stdin=subprocess.DEVNULL,
            timeout=_GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


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
            "interlock touch --target crm:customer/4711 --version 17 --summary 'new address'",
        ),
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="files that you changed")
    parser.add_argument("--commit", metavar="REV", help="the paths that a commit changed, in this repository")
    parser.add_argument("--since", metavar="REV", help="the paths that changed between REV and HEAD")
    parser.add_argument(
        "--repo",
        metavar="NAME",
        help="the repository's name in keys (default: git's interlock.repo, the last part of origin, or the folder's)",
    )
    parser.add_argument("--target", metavar="KEY", help="a target that is not a file")
    parser.add_argument("--version", metavar="VERSION", help="with --target: its version now")
    parser.add_argument(
        "--previous-version", metavar="VERSION", help="with --target: the one you started from"
    )
    parser.add_argument("--summary", default="", help="what you did, in a few words")
    in_session(parser)
    return finished(parser, run_touch)


def run_touch(args: Namespace) -> int:
    """Report the changes, and say whose work they collide with."""
    from interlock.cli.connection import connected

    try:
        changes = _changes(args)
    except FileNotFoundError:
        raise Failed("this folder was removed; change to one that exists", Exit.USAGE) from None
    with connected(args) as client:
        done = [
            touched
            for start in range(0, len(changes), _TOUCHES_MAX)
            for touched in client.touch_targets(
                changes[start : start + _TOUCHES_MAX], session=session_of(args)
            )
        ]
    if wants_json(args):
        say_json({"items": done})
    else:
        _tell(done, who="another principal or session" if session_of(args) else "another principal")
    return Exit.DONE


def _changes(args: Namespace) -> list[dict[str, str]]:

    ways = [bool(args.files), bool(args.commit), bool(args.since), bool(args.target)]
    if sum(ways) != 1:
        raise Failed("name files, --commit, --since or --target, one of them", Exit.USAGE)
    if args.target:
        if not args.version:
            raise Failed("--target needs --version: an etag, a digest or a number of your own", Exit.USAGE)
        named = {"key": args.target, "version": args.version, "summary": args.summary}
        started = args.previous_version
        return [{**named, "previous_version": started} if started else named]
    if args.version or args.previous_version:
        raise Failed("--version goes with --target: what files and commits hold is their version", Exit.USAGE)
    if args.files:
        found = changes_of_files(args.files, args.repo)
    else:
        repository = Repository.here(args.repo)
        found = repository.changes_in(args.commit) if args.commit else repository.changes_since(args.since)
    return [{**change, "summary": args.summary} if args.summary else change for change in found]


def _tell(done: Sequence[Touched], *, who: str) -> None:
    say(f"reported {counted(len(done), 'change')}")
    say(*(f"  {safe(each.key)} is {_state(each.version)}" for each in done[:_SHOWN_MAX]))
    for each in done:
        if each.conflict_id:
            warning = f"! {who} works on {safe(each.key)}; see `interlock conflict {each.conflict_id}`"
            say(painted(warning, "yellow"))
        if each.held_in_session:
            warning = (
                f"! {safe(each.key)} is held in your session {safe(each.held_in_session)}, and this touch named no "
                f"session; if you are that session, pass --session {safe(quote(each.held_in_session))} or set "
                "INTERLOCK_SESSION, so that a touch by another one is noticed"
            )
            say(painted(warning, "yellow"))


def _state(version: str) -> str:

    return "reported as deleted" if version == DELETED else f"at version {safe(version)}"


MARK = "# interlock: report changed paths"
# A commit has happened when these run, so they never fail it, and are not patient.
LINES = {
    "post-commit": "interlock touch --commit HEAD --patience 3s >/dev/null || true",
    "post-merge": "interlock touch --since ORIG_HEAD --patience 3s >/dev/null || true",
}


def declare_hook() -> Parser:
    """The options of `interlock hook …`."""
    parser = Noun(
        "interlock hook",
        description="Report what git commits and merges change, so that others who work on it are told.",
        examples=("interlock hook git", "interlock hook git --install"),
    )
    git = parser.verb("git", "hooks for this git repository: print them, or put them in place")
    git.add_argument("--install", action="store_true", help="write post-commit and post-merge hooks")
    as_json(git)
    git.set_defaults(run=run_git)
    return parser


def run_git(args: Namespace) -> int:
    """Print the hooks, or install them."""
    if not args.install:
        _print(args)
        return Exit.DONE
    folder, repository = _hooks_folder(), Repository.here(None)
    installed = [str(_install(folder / name, line)) for name, line in LINES.items()]
    if wants_json(args):
        say_json({"installed": installed})
    else:
        say(
            *(f"wrote {path}" for path in installed),
            f"They report the files of this repository as {safe(repository.key('…'))}, as INTERLOCK_SESSION if it is "
            "set. They report to INTERLOCK_URL with INTERLOCK_KEY, or to the store in this folder.",
        )
    return Exit.DONE


def _print(args: Namespace) -> None:
    if wants_json(args):
        say_json({name: _script(line) for name, line in LINES.items()})
        return
    for name, line in LINES.items():
        say(f"# .git/hooks/{name}", *_script(line).splitlines(), "")
    say("# `interlock hook git --install` puts them in place")


def _hooks_folder() -> Path:

    return hooks_folder(Path.cwd())


def _install(hook: Path, line: str) -> Path:
    """Write one hook. A hook that Interlock did not write is kept: the line to add is shown instead."""
    if hook.exists() and MARK not in hook.read_text(errors="replace"):
        raise Failed(f"{hook} exists; add this line to it yourself: {line}")
    hook.parent.mkdir(parents=True, exist_ok=True)
    hook.write_text(_script(line))
    hook.chmod(0o755)
    return hook


def _script(line: str) -> str:
    return f"#!/bin/sh\n{MARK}\n{line}\n"

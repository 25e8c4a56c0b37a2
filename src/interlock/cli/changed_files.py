"""Which files changed, under which keys and at which versions: asked of git, or computed."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from interlock.cli.exits import Exit, Failed
from interlock.cli.wording import safe

DELETED = "deleted"
_GIT_SECONDS = 60


class Repository(NamedTuple):
    """A git working tree and its name in keys."""

    root: Path
    name: str

    @classmethod
    def here(cls, name: str | None, folder: Path | None = None) -> Repository:
        """The repository around a folder; its name is what was given, git's `interlock.repo`, or its folder's."""
        found = cls.around(folder or Path.cwd(), name)
        if found is None:
            raise Failed("this is not a git repository; name files instead, or use --key", Exit.USAGE)
        return found

    @classmethod
    def around(cls, folder: Path, name: str | None) -> Repository | None:
        """As `here`, or None outside of any repository."""
        top = _git(folder, "rev-parse", "--show-toplevel")
        if top is None:
            return None
        root = Path(top.rstrip("\n"))
        configured = _git(root, "config", "--get", "interlock.repo")
        return cls(root, name or (configured or "").strip() or root.name)

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

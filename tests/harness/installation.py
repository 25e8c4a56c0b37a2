"""Interlock as a stranger has it: the wheel, in an environment of its own, far from the source tree.

No package is downloaded: the dependencies that the wheel declares, and theirs, are copied from the locked environment
that runs the tests. Whatever Interlock imports without declaring it is missing there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
HANG_SECONDS = 300
# What this process's environment says about Python, Interlock, pip or a colour is not what a stranger's says.
_OURS = ("PYTHON", "INTERLOCK_", "PIP_", "VIRTUAL_ENV", "NO_COLOR", "COLUMNS")


@dataclass(frozen=True, slots=True)
class Installation:
    """A virtual environment in a folder of its own."""

    folder: Path

    @property
    def programs(self) -> Path:
        """Where its programs are."""
        return self.folder / "venv/bin"

    @property
    def packages(self) -> Path:
        """Where its packages are."""
        return self.folder / f"venv/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"

    def env(self, folder: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of somebody who activated it, with a home of their own in `folder`."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        kept["PATH"] = f"{self.programs}{os.pathsep}{kept['PATH']}"
        kept["HOME"] = kept["XDG_CONFIG_HOME"] = str(folder.with_name(f"{folder.name}-home"))
        return kept | dict(more or {})

    def shell(
        self, folder: Path, script: str, *, stdin: str = "", more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a script of bash in a folder, with `interlock` and `python` of this environment."""
        return self._run(["bash", "-c", script], folder, stdin, more)

    def python(
        self, folder: Path, program: str, *, more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of Python in a folder."""
        (folder / "program.py").write_text(program)
        return self._run([str(self.programs / "python"), "program.py"], folder, "", more)

    def run(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one of its programs in its own folder."""
        return self._run([str(self.programs / program), *words], self.folder, "", None)

    def _run(
        self, command: list[str], folder: Path, stdin: str, more: Mapping[str, str] | None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=folder,
            env=self.env(folder, more),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
        )


def build(folder: Path) -> Path:
    """Build the wheel of this source tree into a folder."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANG_SECONDS)
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel: Path, folder: Path) -> Installation:
    """Make an environment with what the wheel declares and pip, and install the wheel there with pip."""
    installation = Installation(folder)
    venv.create(folder / "venv", with_pip=True)
    said = installation.run(
        "python", "-m", "pip", "install", "--no-index", "--no-deps", "--quiet", str(wheel)
    )
    assert said.returncode == 0, said.stderr
    (here,) = metadata.distributions(name="interlock", path=[str(installation.packages)])
    for needed in _dependencies(here):
        _copy(needed, installation.packages)
    return installation


def _dependencies(root: metadata.Distribution) -> Iterator[metadata.Distribution]:
    """What `root` declares without an extra, and what that needs in turn, as installed beside these tests."""
    seen: set[tuple[str, str]] = set()
    waiting = [(root, "")]
    while waiting:
        needing, extra = waiting.pop()
        for line in needing.requires or ():
            wish = Requirement(line)
            if wish.marker and not wish.marker.evaluate({"extra": extra}):
                continue
            for wanted in ("", *wish.extras):
                step = (canonicalize_name(wish.name), wanted)
                if step not in seen:
                    seen.add(step)
                    found = metadata.distribution(wish.name)
                    waiting.append((found, wanted))
                    yield found


def _copy(package: metadata.Distribution, target: Path) -> None:
    """Copy the files of an installed package; its programs, which lie outside, are left out."""
    for file in package.files or ():
        if ".." in file.parts or file.suffix == ".pyc":
            continue
        to = target / file
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(str(file.locate()), to)

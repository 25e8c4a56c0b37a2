"""Whoever installs the wheel, far from the source tree, has a working Interlock.

The dependencies that the wheel declares, and theirs, are copied from the locked environment that runs the tests.
Whatever Interlock imports without declaring it is missing there. Only uv installs them itself, in the locked versions.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.harness.server import clean_env
from tests.tidy.source import PACKAGE, ROOT, files

HANG_SECONDS = 300
# What `interlock[postgres]` and `interlock[nats]` bring.
OF_EXTRAS = {"asyncpg", "nats"}


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment in a folder of its own, and commands run from that folder."""

    folder: Path

    @property
    def packages(self) -> Path:
        """Where its packages are."""
        return self.folder / f"venv/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"

    def run(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one of its programs without what this process's environment says about Python or Interlock."""
        env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "INTERLOCK_", "PIP_", "VIRTUAL_ENV"))
        }
        return subprocess.run(
            [str(self.folder / "venv/bin" / program), *words],
            cwd=self.folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
        )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this source tree."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANG_SECONDS)
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the wheel, what it declares, and pip."""
    environment = Environment(tmp_path_factory.mktemp("elsewhere"))
    venv.create(environment.folder / "venv", with_pip=True)
    said = environment.run("python", "-m", "pip", "install", "--no-index", "--no-deps", "--quiet", str(wheel))
    assert said.returncode == 0, said.stderr
    (here,) = metadata.distributions(name="interlock", path=[str(environment.packages)])
    for needed in dependencies(here):
        copy(needed, environment.packages)
    return environment


def test_the_wheel_ships_every_file_of_the_package(wheel: Path) -> None:
    shipped = set(zipfile.ZipFile(wheel).namelist())
    written = {path.relative_to(PACKAGE.parent).as_posix() for path in files() if PACKAGE in path.parents}
    assert written <= shipped
    assert any(name.endswith("licenses/LICENSE") for name in shipped)


def test_the_demo_keeps_its_promises_without_the_source_tree(installed: Environment) -> None:
    where = installed.run("python", "-c", "import interlock; print(interlock.__file__)")
    assert Path(where.stdout.strip()).is_relative_to(installed.packages), where.stdout + where.stderr
    said = installed.run("interlock", "demo")
    assert said.returncode == 0, said.stdout + said.stderr


def test_uvx_runs_the_command_that_is_named_like_the_package(wheel: Path, tmp_path: Path) -> None:
    uv = Path(sys.executable).parent / "uv"
    locked = ROOT / "requirements/runtime.txt"
    command = [uv, "tool", "run", "--isolated", "--python", sys.executable, "--constraints", locked]
    said = subprocess.run(
        [*command, "--from", wheel, "interlock", "demo"],
        cwd=tmp_path,
        env=clean_env({"UV_TOOL_DIR": str(tmp_path / "tools")}),
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )
    assert said.returncode == 0, said.stdout + said.stderr


def test_the_locked_versions_are_within_the_bounds_that_the_wheel_declares(installed: Environment) -> None:
    said = installed.run("python", "-m", "pip", "check")
    assert said.returncode == 0, said.stdout + said.stderr


def test_whatever_the_package_imports_is_declared(installed: Environment) -> None:
    asked = "import importlib.util, sys; print(*(name for name in sys.argv[1:] if not importlib.util.find_spec(name)))"
    said = installed.run("python", "-c", asked, *sorted(imported(installed.packages / "interlock")))
    assert (said.returncode, set(said.stdout.split())) == (0, OF_EXTRAS), said.stderr


def imported(package: Path) -> set[str]:
    """The modules that a package imports anywhere, also late: those of the demo are not all."""
    found: set[str] = set()
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found


def dependencies(root: metadata.Distribution) -> Iterator[metadata.Distribution]:
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


def copy(package: metadata.Distribution, target: Path) -> None:
    """Copy the files of an installed package; its programs, which lie outside, are left out."""
    for file in package.files or ():
        if ".." in file.parts or file.suffix == ".pyc":
            continue
        to = target / file
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(str(file.locate()), to)

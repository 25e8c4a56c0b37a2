"""Whoever installs the wheel, far from the source tree, has a working Interlock."""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.harness.installation import HANG_SECONDS, ROOT, Installation
from tests.harness.server import clean_env
from tests.tidy.source import PACKAGE, files

# What `interlock[postgres]` and `interlock[nats]` bring.
OF_EXTRAS = {"asyncpg", "nats"}


def test_the_wheel_ships_every_file_of_the_package(wheel: Path) -> None:
    shipped = set(zipfile.ZipFile(wheel).namelist())
    written = {path.relative_to(PACKAGE.parent).as_posix() for path in files() if PACKAGE in path.parents}
    assert written <= shipped
    assert any(name.endswith("licenses/LICENSE") for name in shipped)


def test_the_demo_keeps_its_promises_without_the_source_tree(installed: Installation) -> None:
    where = installed.run("python", "-c", "import interlock; print(interlock.__file__)")
    assert Path(where.stdout.strip()).is_relative_to(installed.packages), where.stdout + where.stderr
    said = installed.run("interlock", "demo")
    assert said.returncode == 0, said.stdout + said.stderr


def test_uvx_runs_the_command_that_is_named_like_the_package(wheel: Path, tmp_path: Path) -> None:
    # pip fetches the locked packages as it did for this environment; uv finds them in the folder and asks nobody.
    locked = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    locked += ["-d", tmp_path / "packages", "-r", ROOT / "requirements/runtime.txt"]
    uvx = [Path(sys.executable).parent / "uv", "tool", "run", "--isolated", "--python", sys.executable]
    uvx += ["--offline", "--no-index", "--find-links", tmp_path / "packages"]
    for command in (locked, [*uvx, "--from", wheel, "interlock", "demo"]):
        said = subprocess.run(
            command,
            cwd=tmp_path,
            env=clean_env({"UV_TOOL_DIR": str(tmp_path / "tools")}),
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
        )
        assert said.returncode == 0, said.stdout + said.stderr


def test_the_commands_of_a_page_are_those_of_the_wheel(installed: Installation, tmp_path: Path) -> None:
    said = installed.shell(tmp_path, "command -v interlock python python3 pip")
    assert [Path(line).parent for line in said.stdout.splitlines()] == [installed.programs] * 4


def test_the_locked_versions_are_within_the_bounds_that_the_wheel_declares(installed: Installation) -> None:
    said = installed.run("python", "-m", "pip", "check")
    assert said.returncode == 0, said.stdout + said.stderr


def test_whatever_the_package_imports_is_declared(installed: Installation) -> None:
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

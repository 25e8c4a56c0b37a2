"""The repository as data: its files, its Python modules and what they import."""

from __future__ import annotations

import ast
import functools
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "interlock"
SKIPPED = {".git", ".venv", "__pycache__", "dist", "node_modules"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One import of one module. `at_load` is False inside a function or under TYPE_CHECKING."""

    name: str
    line: int
    at_load: bool


@dataclass(frozen=True, eq=False)
class Module:
    """One Python file, parsed."""

    path: Path

    @property
    def place(self) -> str:
        """Its path from the root of the repository."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def name(self) -> str:
        """Its dotted name, for a file of the package."""
        parts = self.path.relative_to(PACKAGE.parent).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def part(self) -> str:
        """The room, shell or layer it belongs to; empty for the package's own files."""
        parts = self.path.relative_to(PACKAGE).parts
        if parts[0] == "rooms" and len(parts) > 2:
            return parts[1]
        return parts[0] if len(parts) > 1 else ""

    @functools.cached_property
    def text(self) -> str:
        return self.path.read_text()

    @functools.cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.place)

    @functools.cached_property
    def imports(self) -> tuple[Import, ...]:
        return tuple(_imports(self.tree, at_load=True))


@functools.cache
def package() -> tuple[Module, ...]:
    """Every module of src/interlock."""
    return tuple(Module(path) for path in sorted(PACKAGE.rglob("*.py")))


@functools.cache
def everything() -> tuple[Module, ...]:
    """Every Python module of the repository."""
    return tuple(Module(path) for path in files() if path.suffix == ".py")


@functools.cache
def files() -> tuple[Path, ...]:
    """Every file of the repository, whether committed yet or not, that git does not ignore."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, capture_output=True, text=True)
    if listing.returncode == 0:
        found = [ROOT / line for line in listing.stdout.splitlines()]
    else:  # An unpacked archive has no git folder.
        found = [path for path in ROOT.rglob("*") if not SKIPPED.intersection(path.parts)]
    return tuple(sorted(path for path in found if path.is_file()))


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function with its qualified name."""
    yield from _functions(tree, "")


def docstrings(tree: ast.Module) -> set[int]:
    """The identities of all docstring nodes, and of every other string that stands alone."""
    return {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}{child.name}"
            if not isinstance(child, ast.ClassDef):
                yield name, child
            yield from _functions(child, f"{name}.")
        else:
            yield from _functions(child, prefix)


def _imports(node: ast.AST, *, at_load: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        loads = at_load
        if isinstance(child, ast.Import):
            yield from (Import(name=alias.name, line=child.lineno, at_load=at_load) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            base = child.module or ""
            # Whether the last part is a module or a name inside one is told apart by the reader.
            yield from (
                Import(name=f"{base}.{alias.name}", line=child.lineno, at_load=at_load)
                for alias in child.names
            )
        elif _is_deferred(child):
            loads = False
        yield from _imports(child, at_load=loads)


def _is_deferred(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)

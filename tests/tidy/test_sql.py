"""SQL lives in .sql files, in named blocks that say what they are for and how many rows they may return."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.tidy.source import PACKAGE, ROOT, docstrings, files, package

SCHEMA = PACKAGE / "store" / "schema"
QUERY_FILES = [
    path
    for path in files()
    if path.suffix == ".sql" and PACKAGE in path.parents and SCHEMA not in path.parents
]
DIALECTS = ("sqlite", "postgres")

STATEMENT = re.compile(
    r"^\s*(SELECT\s.+\sFROM\s|INSERT\s+INTO\s|UPDATE\s+\w+\s+SET\s|DELETE\s+FROM\s|WITH\s+\w+\s+AS\s*\("
    r"|(CREATE|ALTER|DROP)\s+(TABLE|INDEX|VIEW|SCHEMA)\s)",
    re.IGNORECASE | re.DOTALL,
)
AGGREGATE = re.compile(r"^(count|max|min|sum|avg|coalesce|exists|bool_or|bool_and)\s*\(", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One named block of a .sql file."""

    place: str
    name: str
    purpose: list[str]
    sql: str


def blocks(path: Path) -> list[Block]:
    """The named blocks of `path`."""
    found: list[Block] = []
    pieces = re.split(r"^-- name: *(.*)$", path.read_text(), flags=re.MULTILINE)
    for name, body in zip(pieces[1::2], pieces[2::2], strict=True):
        lines = body.strip().splitlines()
        purpose = [line for line in lines if line.startswith("--")]
        sql = "\n".join(line for line in lines if not line.startswith("--"))
        place = path.relative_to(ROOT).as_posix()
        found.append(Block(place=place, name=name.strip(), purpose=purpose, sql=sql))
    return found


BLOCKS = [block for path in QUERY_FILES for block in blocks(path)]


def test_no_python_outside_the_store_holds_sql() -> None:
    assert not [
        f"{module.place}:{node.lineno} {node.value.strip()[:60]!r}"
        for module in package()
        if module.part != "store"
        for silent in [docstrings(module.tree)]
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent
        if STATEMENT.match(node.value)
    ]


@pytest.mark.parametrize("path", QUERY_FILES, ids=lambda path: path.parent.name)
def test_every_statement_belongs_to_a_named_block(path: Path) -> None:
    before_first_name = re.split(r"^-- name:", path.read_text(), flags=re.MULTILINE)[0]
    assert not [line for line in before_first_name.splitlines() if line.strip() and not line.startswith("--")]


def test_block_names_are_snake_case_and_used_once_a_file() -> None:
    named = [(block.place, block.name) for block in BLOCKS]
    assert sorted(set(named)) == sorted(named)
    assert not [name for name in named if not re.fullmatch(r"[a-z][a-z0-9_]*", name[1])]


def test_every_block_says_its_purpose_in_one_line() -> None:
    assert not [
        f"{block.place}: {block.name}"
        for block in BLOCKS
        if len(block.purpose) != 1 or not block.purpose[0].startswith("-- ") or len(block.purpose[0]) < 10
    ]


def test_every_block_is_one_statement() -> None:
    assert not [
        f"{block.place}: {block.name}" for block in BLOCKS if block.sql.strip().rstrip(";").count(";")
    ]


def test_every_select_is_bounded() -> None:
    assert not [f"{block.place}: {block.name} has no LIMIT" for block in BLOCKS if not is_bounded(block.sql)]


@pytest.mark.parametrize(
    ("sql", "bounded"),
    [
        ("SELECT body FROM jobs WHERE tenant = :tenant LIMIT :limit", True),
        ("SELECT body FROM jobs WHERE tenant = :tenant", False),
        ("SELECT body FROM (SELECT * FROM jobs LIMIT 3) j", False),
        ("SELECT body FROM jobs WHERE tenant = :tenant AND id = :id", True),
        ("SELECT count(*), max(seq) FROM jobs", True),
        ("SELECT count(*) FROM jobs GROUP BY state", False),
        ("SELECT state, count(*) FROM jobs GROUP BY state", False),
        ("UPDATE jobs SET state = :state WHERE id = :id", True),
        ("WITH x AS (SELECT 1) SELECT * FROM x", False),
    ],
)
def test_the_check_for_bounds_can_tell(sql: str, *, bounded: bool) -> None:
    assert is_bounded(sql) is bounded


def is_bounded(sql: str) -> bool:
    """Whether `sql` returns boundedly many rows: a LIMIT of its own, one aggregate row, or one exact id."""
    outer = without_parentheses(sql)
    select = re.search(r"\bSELECT\s+(.*?)\s+FROM\b(.*)", outer, re.IGNORECASE | re.DOTALL)
    if select is None:
        return True
    columns, rest = select.groups()
    if re.search(r"\bLIMIT\b", rest, re.IGNORECASE):
        return True
    if re.search(r"\bGROUP\s+BY\b", rest, re.IGNORECASE):
        return False
    is_aggregate = all(AGGREGATE.match(column.strip()) for column in columns.split(","))
    is_exact = re.search(r"\btenant = :\w+\b", rest) and re.search(r"(?<!\w)(\w\.)?id = :\w+", rest)
    return is_aggregate or bool(is_exact)


def without_parentheses(sql: str) -> str:
    """`sql` with whatever stands between parentheses taken out, so that only its outermost level is left."""
    depth, kept = 0, []
    for letter in sql:
        depth -= letter == ")"
        if depth == 0:
            kept.append(letter)
        depth += letter == "("
    return "".join(kept)


def test_migrations_have_the_same_numbers_and_names_in_both_dialects() -> None:
    names = {dialect: sorted(path.name for path in (SCHEMA / dialect).glob("*.sql")) for dialect in DIALECTS}
    assert names["sqlite"] == names["postgres"]
    numbers = [int(name[:4]) for name in names["sqlite"]]
    assert numbers == list(range(1, len(numbers) + 1))

"""How-tos that are followed word for word, in one shell on a real server, by everybody whom they name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from interlock import Interlock
from tests.examples.shown_script import ShownScript, blocks_of
from tests.harness.installation import Installation

HOWTO = Path(__file__).parents[2] / "docs" / "howto"


def test_two_sessions_and_a_person_share_a_repository_as_the_page_says(
    tmp_path: Path, installed: Installation
) -> None:
    script = ShownScript.of_page(HOWTO / "share-a-repository.md", "shell")
    run = script.run(tmp_path, installed.env(tmp_path))
    assert not run.failed, f"{run.failed}\n{run.text}"
    assert not run.lacks(script.printed), run.text
    with Interlock(store=f"sqlite:///{tmp_path}/billing/.interlock/interlock.db") as il:
        found = {conflict.kind: conflict for conflict in il.conflicts().items}
        target = il.get_target("repo:billing/invoice.py")
    assert found.keys() == {"stale_fence", "duplicate_work", "human_edit_during_lease"}
    assert (
        found["stale_fence"].count == 1
    )  # the other session's call; the one without a session is no collision
    assert [(touch.actor, touch.session) for touch in target.touches] == [
        ("ann", ""), ("coder", "right"), ("coder", ""),
    ]  # fmt: skip


GATE = HOWTO / "gate-a-function.md"
ROWS = 6


@pytest.mark.parametrize("block", blocks_of(GATE, "console"), ids=lambda block: block.splitlines()[1][6:40])
def test_a_program_of_the_gate_does_and_prints_what_the_page_shows(
    block: str, tmp_path: Path, installed: Installation
) -> None:
    script = ShownScript(block.splitlines())
    run = script.run(tmp_path, installed.env(tmp_path))
    assert not run.failed, f"{run.failed}\n{run.text}"
    assert not run.lacks(script.printed), run.text


def test_every_row_of_the_table_has_its_program() -> None:
    page = GATE.read_text()
    table = [line for line in page.splitlines() if line.startswith("| ") and "](#" in line]
    assert len(table) == ROWS
    for row in table:
        (place,) = re.findall(r"\]\(#([\w-]+)\)", row)
        section = page.partition(f"### {place.replace('-', ' ').capitalize()}\n")[2].partition("\n## ")[0]
        program = section.partition("\n### ")[0]
        assert re.search(r"\$ python3 \w+\.py", program), row
        outcomes = set(re.findall(r"`([A-Z]\w+)`", row))
        assert not [outcome for outcome in outcomes if outcome not in program], row

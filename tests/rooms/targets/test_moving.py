"""Whether a target has moved is asked in one way, wherever it matters."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from interlock.rooms.targets.model import Target

TARGET = Target(
    tenant="t", id="doc:1", current="v2", touched_at=datetime(2030, 1, 1, tzinfo=UTC), touched_by="ada"
)


@pytest.mark.parametrize(
    ("version", "moved"), [("v1", True), ("v2", False), ("V2", True), ("", True), (None, False)]
)
def test_a_target_has_moved_from_every_version_but_its_own(version: str | None, *, moved: bool) -> None:
    assert TARGET.has_moved_from(version) is moved

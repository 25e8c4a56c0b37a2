"""What `interlock doctor` says of records that somebody broke in the store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from interlock.cli.examining import Finding
from interlock.cli.wording import counted

if TYPE_CHECKING:
    from interlock.sdk.client import Interlock


def examine_records(client: Interlock) -> Iterator[Finding]:
    """Did anything that was looked at so far, or since the server started, turn out to be unreadable?"""
    broken = client.health().unreadable_records
    if broken:
        yield Finding(
            level="wrong",
            about="records",
            text=f"{counted(broken, 'stored record')} cannot be read; somebody wrote to the database",
            next_step="the service's log names them; find out who, and put them back from a copy of the store",
        )

"""What `interlock doctor` asks of grants: is every use accounted for?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from interlock.cli.examining import Finding
from interlock.cli.wording import counted
from interlock.sdk.outcomes import Forbidden

if TYPE_CHECKING:
    from interlock.sdk.client import Interlock

_PAGE = 200
_PAGES_MAX = 5000
_FATES = ("open", "claimed", "expired", "revoked")


def examine_grants(client: Interlock) -> Iterator[Finding]:
    """Is every use that was issued open, claimed, expired or revoked, and every claimed one recorded?"""
    try:
        total, uneven, older = _add_up(client)
    except Forbidden:
        yield Finding(
            level="note", about="grants", text="not examined", next_step="pass an auditor's or admin's key"
        )
        return
    fates = ", ".join(f"{total[fate]} {fate}" for fate in _FATES)
    of = f" of the newest {total['grants']} grants" if older else ""
    text = f"{counted(total['issued'], 'use')}{of} issued: {fates}"
    if not uneven and total["issued"] == sum(total[fate] for fate in _FATES):
        yield Finding(level="ok", about="grants", text=text)
        return
    yield Finding(
        level="wrong",
        about="grants",
        text=f"{text}; the records of {', '.join(uneven[:5]) or 'some grant'} do not add up, so somebody wrote to them",
        next_step=f"interlock audit --subject {uneven[0]}" if uneven else "interlock audit",
    )


def _add_up(client: Interlock) -> tuple[Counter[str], list[str], bool]:
    """The ledger page by page, the grants that do not add up, and whether there are older ones than were looked at."""
    total: Counter[str] = Counter()
    uneven: list[str] = []
    cursor: str | None = None
    for _ in range(_PAGES_MAX):
        page: dict[str, Any] = client.call(
            "GET", "grants", "ledger", query={"limit": _PAGE, "cursor": cursor}
        )
        total.update({name: page[name] for name in ("grants", "issued", *_FATES)})
        uneven += page["uneven"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    return total, uneven, cursor is not None

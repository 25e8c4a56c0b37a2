"""Leases, checkpoints and those who wait, as people read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any

from interlock.cli.output import Cell, Column, painted, say, say_fields, say_table
from interlock.cli.wording import exactly, moment, pretty, safe, when

_STYLES: Mapping[str, str] = {
    "claimed": "cyan",
    "leased": "green",
    "applying": "blue",
    "waiting_on_review": "yellow",
    "conflict_detected": "red",
    "stale": "red",
}
_REST = {"checkpoint": " --done JSON"}
_PARTS = ("done", "partial", "evidence", "validation", "open_questions")


def say_leases(leases: Sequence[Mapping[str, Any]]) -> None:
    """A table of leases."""
    columns = (
        Column("ID"),
        Column("RESOURCE", flexible=True),
        Column("OWNER", flexible=True),
        Column("STATE"),
        Column("UNTIL"),
        Column("PURPOSE", flexible=True, optional=True),
    )
    say_table(
        columns,
        (
            (
                lease["lease_id"],
                safe(lease["resource"]),
                _owner(lease),
                lease_state(lease),
                when(moment(lease["ended_at"] or lease["expires_at"])),
                safe(lease["purpose"] or "-"),
            )
            for lease in leases
        ),
    )


def say_lease(lease: Mapping[str, Any]) -> None:
    """Everything about one lease, and how far its owner got."""
    say(painted(safe(lease["resource"]), "bold"), "")
    say_fields(
        [
            ("lease", lease["lease_id"]),
            ("state", lease_state(lease)),
            ("owner", _owner(lease)),
            ("purpose", safe(lease["purpose"])),
            ("mode", lease["mode"]),
            ("fence", str(lease.get("fence") or "")),
            ("since", _at(lease["since"])),
            ("until", "" if lease["ended_at"] else _at(lease["expires_at"])),
            ("ended", _at(lease["ended_at"]) if lease["ended_at"] else ""),
            ("handed to", safe(lease["handed_to"] or "")),
            ("conflict", safe(lease["conflict_id"] or "")),
            ("before", _before(lease["predecessor"])),
        ]
    )
    say_checkpoint(lease["checkpoint"])


def say_going_on(lease: Mapping[str, Any]) -> None:
    """What its owner does next."""
    named = f"{lease['lease_id']} --fence {lease['fence']}"
    session = f" --session {quote(lease['session'])}" if lease["session"] else ""
    verbs = ("renew", "checkpoint", "release")
    say(
        "",
        "to go on, one of",
        *(f"  interlock lease {verb} {named}{session}{_REST.get(verb, '')}" for verb in verbs),
    )


def say_checkpoint(checkpoint: Mapping[str, Any] | None) -> None:
    """How far somebody got, whole."""
    if checkpoint is None:
        return
    head = f"checkpoint {checkpoint['number']} by {safe(checkpoint['by'])}, {when(moment(checkpoint['at']))}"
    say("", painted(head, "bold"))
    for part in _PARTS:
        if checkpoint[part] is not None:
            say(painted(part, "dim"), *(f"  {line}" for line in pretty(checkpoint[part])))


def lease_state(lease: Mapping[str, Any]) -> Cell:
    return Cell(lease["state"], _STYLES.get(lease["state"], "dim"))


def _owner(lease: Mapping[str, Any]) -> str:
    session = f" ({safe(lease['session'])})" if lease["session"] else ""
    return f"{safe(lease['owner'])}{session}"


def _at(text: str) -> str:
    at = moment(text)
    return f"{when(at)} ({exactly(at)})"


def _before(predecessor: Mapping[str, Any] | None) -> str:
    if predecessor is None:
        return ""
    return f"{safe(predecessor['owner'])}, {predecessor['ended']} {when(moment(predecessor['ended_at']))}"

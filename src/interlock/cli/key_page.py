"""Keys as people read them; the same fields whether they come from a store or from a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from interlock.cli.output import Cell, Column, say_table
from interlock.cli.wording import listed, safe, when

if TYPE_CHECKING:
    from interlock.identity.model import ApiKey, Principal


def key_fields(key: ApiKey, principal: Principal) -> dict[str, Any]:
    """A key without its secret."""
    fields = {
        "key_id": key.id,
        "principal": key.principal,
        "kind": principal.kind.value,
        "roles": [role.value for role in principal.roles],
        "groups": list(principal.groups),
        "owner": principal.owner,
        "created_at": key.created_at,
        "created_by": key.created_by,
        "revoked_at": key.revoked_at,
    }
    # As a server spells it, moments included.
    return to_builtins(fields)


def say_keys(keys: Sequence[Mapping[str, Any]]) -> None:
    """A table of keys."""
    columns = (
        Column("KEY ID"),
        Column("OF", flexible=True),
        Column("KIND"),
        Column("ROLES", flexible=True),
        Column("GROUPS", flexible=True, optional=True),
        Column("OWNER", flexible=True, optional=True),
        Column("CREATED", optional=True),
        Column("STATE"),
    )
    say_table(columns, [_row(key) for key in keys])


def _row(key: Mapping[str, Any]) -> tuple[str | Cell, ...]:
    revoked_at: str | None = key["revoked_at"]
    state = (
        Cell(f"revoked {when(datetime.fromisoformat(revoked_at))}", "dim")
        if revoked_at
        else Cell("live", "green")
    )
    return (
        key["key_id"],
        safe(key["principal"]),
        key["kind"],
        listed(key["roles"]),
        listed(key.get("groups", ())),
        safe(key.get("owner") or "-"),
        when(datetime.fromisoformat(key["created_at"])),
        state,
    )

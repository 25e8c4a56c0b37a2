"""Where gated calls are made from: embedded or through a server, on either store; and a remote side that counts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from interlock import Interlock
from tests.harness.server import InterlockServer

PLACES = ("embedded on SQLite", "embedded on PostgreSQL", "served on SQLite", "served on PostgreSQL")

POLICY = """
version: v1
default: deny
rules:
  - {id: pays, when: {topic: pay}, decision: allow}
  - {id: asks, when: {topic: ask}, decision: require_human}
  - {id: hurries, when: {topic: hurry}, decision: require_human, approval: {expires_in: 1s}}
"""


@dataclass
class Place:
    """Who calls, and who decides."""

    il: Interlock
    person: Interlock


@contextlib.contextmanager
def opened(
    where: str, request: pytest.FixtureRequest, serve: Callable[..., InterlockServer]
) -> Iterator[Place]:
    """One of `PLACES`; through a server the caller is an agent, and somebody else decides."""
    kind, _, engine = where.partition(" on ")
    store = request.getfixturevalue("sqlite_url" if engine == "SQLite" else "postgres_url")
    if kind == "embedded":
        with Interlock(store=store) as il:
            il.apply_policy(POLICY)
            issued = il.call(
                "POST", "principals", "ann", "keys", body={"kind": "person", "roles": ["review"]}
            )
            with Interlock(store=store, key=issued["key"]) as person:
                yield Place(il, person)
        return
    server = serve(store)
    admin = server.create_key("root", roles="admin,review").key
    agent = server.create_key("payer", kind="agent", roles="submit").key
    with Interlock(server.url, admin) as person, Interlock(server.url, agent) as il:
        person.apply_policy(POLICY)
        yield Place(il, person)


class Bank:
    """A remote side that counts."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.raises: BaseException | None = None

    def transfer(self, invoice: str) -> str:
        self.paid.append(invoice)
        if self.raises is not None:
            raise self.raises
        return f"receipt for {invoice}"

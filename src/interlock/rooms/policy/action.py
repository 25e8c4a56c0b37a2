"""An action: what a job would do. The policy judges it, and its hash binds the approval to it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from enum import StrEnum

import msgspec

from interlock.kernel.codec.canonical import canonical


class PeopleAsked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The submitter asks for people's decision: of any reviewer, or of people in these groups."""

    groups: tuple[str, ...] = ()


HASH_DOMAIN = b"interlock:job/v1\n"


class Priority(StrEnum):
    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"
    CRITICAL = "critical"


# Smaller runs sooner. A column, so that the order is the store's to keep; the queries for claims name them all.
RANKS: Mapping[Priority, int] = {
    Priority.CRITICAL: 0,
    Priority.HIGH: 1,
    Priority.NORMAL: 2,
    Priority.LOW: 3,
}


class TargetRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the action changes, and which version of it the proposal was made for."""

    key: str
    version: str | None = None


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a rule's expression gave no answer about a request. `field` is what it could not read, if that is known."""

    expression: str
    why: str
    field: str | None = None


class Action(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A proposed action: all that the hash binds, and which groups to ask. The payload is canonical JSON, as bytes."""

    topic: str
    payload: msgspec.Raw
    env: str = ""
    channel: str = ""
    labels: dict[str, str] = {}
    risk: tuple[str, ...] = ()
    target: TargetRef | None = None
    people: PeopleAsked | None = None

    def hash(self, tenant: str) -> str:
        """`sha256:…` over the RFC 8785 form of the tenant and every field but `people`, with a domain prefix."""
        target = {"key": self.target.key, "version": self.target.version} if self.target else None
        # Written in canonical order, and of texts alone, so one pass spells it canonically.
        bound = {
            "channel": self.channel,
            "env": self.env,
            "labels": msgspec.Raw(canonical(self.labels)) if self.labels else {},
            "payload": self.payload,
            "risk": self.risk,
            "target": target,
            "tenant": tenant,
            "topic": self.topic,
        }
        return f"sha256:{hashlib.sha256(HASH_DOMAIN + msgspec.json.encode(bound)).hexdigest()}"

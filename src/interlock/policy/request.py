"""What a policy is asked about: one job, by one actor."""

from __future__ import annotations

import msgspec

from interlock.codec.strict import JsonValue


class Actor(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks. `owner` is the person whom an agent or worker acts for, if there is one."""

    id: str
    kind: str = "person"
    groups: tuple[str, ...] = ()
    owner: str = ""


class PolicyInput(msgspec.Struct, frozen=True, kw_only=True):
    """One job as the policy sees it. An absent env or channel is the empty text; `payload` is parsed JSON."""

    topic: str
    actor: Actor
    tenant: str = "default"
    env: str = ""
    channel: str = ""
    labels: dict[str, str] = {}
    risk: tuple[str, ...] = ()
    payload: JsonValue = msgspec.field(default_factory=dict[str, JsonValue])
    priority: str = "normal"

"""Which commands one process may decide for another on the same SQLite file."""

from __future__ import annotations

from interlock.kernel.requests import Requests

REQUESTS = Requests({"ClaimGrant": "interlock.grants.claiming", "BeginEffect": "interlock.effects.rules"})

"""The API with agents who want the same things: shorthand for acquiring, using and losing leases."""

from __future__ import annotations

from typing import Any

from interlock.rooms.identity.keys import digest_of
from interlock.rooms.identity.model import Caller
from interlock.rooms.leases.acquisition import Acquired, AcquireLease
from interlock.rooms.leases.model import LeaseHeld, LeaseMode
from tests.harness.in_process_api import InProcessApi, Seen

NAMES = ("ann", "bob", "cyd")


class LeaseClient:
    """The API and the keys of `ann`, `bob` and `cyd`."""

    def __init__(self, api: InProcessApi) -> None:
        self.api = api
        self.keys: dict[str, str] = {}
        self._numbers = iter(range(1_000_000))

    async def open(self) -> LeaseClient:
        for name in NAMES:
            self.keys[name] = await self.api.agent(name, "submit")
        return self

    def advance(self, seconds: float) -> None:
        self.api.clock.advance(seconds)

    async def ask(self, resource: str, by: str = "ann", **fields: Any) -> Seen:
        """Try to acquire, and see what comes back."""
        body = {"resource": resource, "ttl_seconds": 60, **fields}
        return await self.api.call("POST", "leases", self.keys[by], body)

    async def take(self, resource: str, by: str = "ann", **fields: Any) -> dict[str, Any]:
        """Acquire what must be free."""
        seen = await self.ask(resource, by, **fields)
        assert seen.status == 201, seen.document
        return seen.document

    async def refused(self, resource: str, by: str = "bob", **fields: Any) -> dict[str, Any]:
        """Fail to acquire what must be held."""
        seen = await self.ask(resource, by, **fields)
        assert (seen.status, seen.word) == (409, "lock_busy"), seen.document
        return seen.document

    async def call(self, verb: str, lease: dict[str, Any], by: str = "ann", **fields: Any) -> Seen:
        """renew, checkpoint, suspend, resume, handoff, release or check."""
        body = {"fence": lease["fence"], **fields}
        return await self.api.call("POST", f"leases/{lease['lease_id']}/{verb}", self.keys[by], body)

    async def do(self, verb: str, lease: dict[str, Any], by: str = "ann", **fields: Any) -> dict[str, Any]:
        """The same, which must succeed."""
        seen = await self.call(verb, lease, by, **fields)
        assert seen.status == 200, seen.document
        return seen.document

    async def read(self, lease: dict[str, Any]) -> dict[str, Any]:
        return await self.api.get(f"leases/{lease['lease_id']}")

    async def terms(self, **fields: Any) -> None:
        seen = await self.api.call("PUT", "leases/terms", self.api.admin, fields)
        assert seen.status == 200, seen.document

    async def wait(
        self, resource: str, by: str, ticket: str, mode: str = "exclusive", ttl_seconds: int = 60
    ) -> Acquired | None:
        """One try of a caller who waits in line; None while it is not their turn."""
        key = self.keys[by]
        caller = Caller(tenant="default", principal=by, key_id=key.split("_")[1], key_digest=digest_of(key))
        command = AcquireLease(
            caller=caller,
            lease_id=f"lse_{next(self._numbers)}",
            resource=resource,
            mode=LeaseMode(mode),
            ticket=ticket,
            ttl_seconds=ttl_seconds,
        )
        try:
            return await self.api.service.kernel.run(command)
        except LeaseHeld:
            return None

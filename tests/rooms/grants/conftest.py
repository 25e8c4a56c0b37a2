"""The API that these tests call, and what they do with grants on it."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from interlock.kernel.ids import new_id
from interlock.rooms.grants.model import GRANTS, Grant, SpendLimit, signed_bytes
from interlock.rooms.grants.pins import pins_of
from interlock.rooms.grants.signatures import fingerprint_of
from tests.harness.in_process_api import InProcessApi, Seen, open_api


class Granting:
    """The API with a person who issues grants (ada) and an agent who claims them (bot)."""

    def __init__(self, api: InProcessApi) -> None:
        self.api = api
        self.ada = ""
        self.bot = ""

    async def issue(self, task: str = "deploy", key: str | None = None, **fields: Any) -> Seen:
        return await self.api.call("POST", "grants", key or self.ada, {"task": task, **fields})

    async def grant(self, task: str = "deploy", **fields: Any) -> str:
        """Issue a grant that must be issued; returns its id."""
        seen = await self.issue(task, **fields)
        assert seen.status == 201, seen.document
        return seen.document["id"]

    async def claim(
        self, args: Any = None, execution: str | None = None, task: str = "deploy", **fields: Any
    ) -> Any:
        """Claim as bot, unless `key` says who; returns the answer's document."""
        body = {"task": task, "args": args or {}, "execution_id": execution or new_id("exec")}
        key = fields.pop("key", self.bot)
        seen = await self.api.call("POST", "grants/claim", key, {**body, **fields})
        assert seen.status == 200, seen.document
        return seen.document

    async def read(self, grant: str) -> Any:
        return await self.api.get(f"grants/{grant}")

    async def state(self, grant: str) -> str:
        """The state as stored."""
        return (await self.stored(grant)).state.value

    async def stored(self, grant: str) -> Grant:
        found = await self.api.service.store.get(GRANTS, "default", grant)
        assert found is not None
        return found

    async def refusals(self, subject: str) -> list[str]:
        """Why claims about something were refused, as the audit says, oldest first."""
        items = (await self.api.get(f"audit?subject={subject}"))["items"]
        return [item["details"]["why"] for item in reversed(items) if item["action"] == "grant_claim_refused"]


class Pen:
    """A signing key and what one does with it."""

    def __init__(self) -> None:
        self._key = Ed25519PrivateKey.generate()
        self.public_key = base64.b64encode(self._key.public_key().public_bytes_raw()).decode()
        self.fingerprint = fingerprint_of(self.public_key)

    def sign(
        self, api: InProcessApi, *, approver: str = "ada", task: str = "deploy", **terms: Any
    ) -> dict[str, Any]:
        """The fields of a signed grant: an hour from now, once, without pins, unless `terms` say otherwise."""
        from datetime import timedelta

        said: dict[str, Any] = {
            "tenant": "default",
            "pins": {},
            "limits": [],
            "uses": 1,
            "standing": False,
            "nonce": new_id("gnt"),
            "expires_at": api.clock.now + timedelta(hours=1),
            **terms,
        }
        message = signed_bytes(
            task=task,
            approver=approver,
            **{
                **said,
                "pins": pins_of(said["pins"]),
                "limits": tuple(SpendLimit(**x) for x in said["limits"]),
            },
        )
        signature = {"signer": self.fingerprint, "value": base64.b64encode(self._key.sign(message)).decode()}
        del said["tenant"]
        return {**said, "expires_at": said["expires_at"].isoformat(), "signature": signature}


@pytest.fixture
async def granting() -> AsyncIterator[Granting]:
    """A service on an empty memory store with a virtual clock, a person and an agent."""
    async with open_api() as api:
        opened = Granting(api)
        opened.ada, opened.bot = await api.person("ada"), await api.agent("bot")
        yield opened


@pytest.fixture
async def pen(granting: Granting) -> Pen:
    """A key that is registered for ada."""
    made = Pen()
    await register(granting, made)
    return made


async def register(granting: Granting, pen: Pen, person: str = "ada") -> Seen:
    """Register a key as the admin."""
    body = {"public_key": pen.public_key, "person": person}
    return await granting.api.call("POST", "signers", granting.api.admin, body)

"""A real server with a policy and the people of a small company, for tests that use the console as they do."""

from __future__ import annotations

import asyncio
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from interlock import Interlock, Job
from interlock.rooms.identity.model import PrincipalKind, Role
from interlock.service.operator import activate_policy_file, issue_key
from interlock.service.service import open_service
from interlock.service.settings import settings_from
from tests.harness.server import InterlockServer, Key

TOPIC = "finance.payment.execute"
POLICY = """\
version: v1
default: deny
rules:
  - id: large-payments-need-finance
    when: {topic: finance.payment.execute, env: production}
    if: payload.amount_cents > 10000
    decision: require_human
    approval: {quorum: 1, groups: [finance]}
  - id: small-payments-run
    when: {topic: finance.payment.execute}
    decision: allow
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A principal of the company, before it has a key."""

    name: str
    roles: tuple[Role, ...]
    kind: PrincipalKind = PrincipalKind.PERSON
    groups: tuple[str, ...] = ()
    owner: str | None = None


MEMBERS = (
    Member(name="ann", roles=(Role.REVIEW, Role.ADMIN), groups=("finance",)),
    Member(name="bob", roles=(Role.REVIEW,), groups=("finance",)),
    Member(name="mia", roles=(Role.REVIEW,)),
    Member(name="billing-bot", kind=PrincipalKind.AGENT, roles=(Role.SUBMIT,), owner="mia"),
    Member(name="payouts", kind=PrincipalKind.WORKER, roles=(Role.WORK, Role.SUBMIT)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Company:
    """A SQLite file with the policy and everybody in it, to be copied, and the keys that its copies know too."""

    path: Path
    keys: dict[str, Key]


def found_company(path: Path, store: str = "") -> Company:
    """Make the file: once, because a copy is quicker than five keys and a policy. Or fill `store` in its place."""

    async def fill() -> dict[str, Key]:
        policy = path.with_suffix(".yaml")
        policy.write_text(POLICY)
        settings = settings_from({}, store=store or f"sqlite:///{path}")
        async with open_service(settings, sweeping=False) as service:
            await activate_policy_file(service, policy)
            made = [
                await issue_key(
                    service,
                    member.name,
                    kind=member.kind,
                    roles=member.roles,
                    groups=member.groups,
                    owner=member.owner,
                )
                for member in MEMBERS
            ]
        return {
            each.principal.id: Key(principal=each.principal.id, tenant=each.principal.tenant, key=each.key)
            for each in made
        }

    # In a thread: another loop may be marked as running in this one.
    with ThreadPoolExecutor(1) as pool:
        return Company(path=path, keys=pool.submit(asyncio.run, fill()).result())


class ConsoleSite:
    """`interlock serve` on a copy of the company's store. `start()` before use, `close()` after.

    `ann` reviews, is in finance and is an admin; `bob` reviews and is in finance; `mia` reviews, and owns the agent
    `billing_bot`, which submits; `payouts` is the worker. With a `store`, which has the company in it, no copy is made.
    """

    def __init__(self, company: Company, folder: Path, *, store: str = "", **options: Any) -> None:
        if not store:
            for file in company.path.parent.glob(f"{company.path.name}*"):
                shutil.copy(file, folder / file.name)
        self.server = InterlockServer(store or f"sqlite:///{folder / company.path.name}", **options)
        self.url = self.server.url
        self.ann, self.bob, self.mia, self.billing_bot, self.payouts = (
            company.keys[member.name].key for member in MEMBERS
        )
        self._clients: dict[str, Interlock] = {}

    def start(self) -> ConsoleSite:
        """Start the server, and return once it is ready."""
        self.server.start()
        return self

    def close(self) -> None:
        """End the server and let go of the clients."""
        for client in self._clients.values():
            client.close()
        self.server.close()

    def client(self, key: str) -> Interlock:
        """The SDK, as whoever has `key`."""
        if key not in self._clients:
            self._clients[key] = Interlock(self.url, key=key)
        return self._clients[key]

    def hire(self, name: str, *roles: str) -> str:
        """Another person, with these roles alone; returns their key."""
        body = {"kind": "person", "roles": list(roles)}
        return str(self.client(self.ann).call("POST", "principals", name, "keys", body=body)["key"])

    def submit(self, amount_cents: int = 25_000, *, to: str = "Acme", **options: Any) -> Job:
        """A payment of the agent's, 250.00 EUR in production if nothing else is said: that waits for finance.

        `payload` replaces the usual one; other options are those of the SDK's `submit`.
        """
        payload = {"amount_cents": amount_cents, "currency": "EUR", "to": to}
        call = {"topic": TOPIC, "payload": payload, "env": "production"} | options
        return self.client(self.billing_bot).submit(call.pop("topic"), call.pop("payload"), **call)

    def sign_in(self, page: Page, key: str) -> None:
        """Sign in with an API key as a person does, and return once the sign-in page is left."""
        page.goto(f"{self.url}/console/sign-in")
        page.get_by_label("API key").fill(key)
        page.get_by_role("button", name="Sign in", exact=True).click()
        page.wait_for_url(lambda url: not url.split("?")[0].endswith("/console/sign-in"))

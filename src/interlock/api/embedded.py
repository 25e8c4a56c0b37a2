"""The service inside this process, without a server: used by the CLI and the SDK when there is no URL.

A process that can open the store's file is trusted with it. Without a key it acts as the person `local:<os user>` of
the default tenant, with every role; with a key, it acts as that key's principal.
"""

from __future__ import annotations

from interlock.api.app import App
from interlock.api.assembly import assemble
from interlock.api.heads import authenticate, too_large
from interlock.api.problem import problem_response
from interlock.kernel.refusal import Fault
from interlock.kernel.storage import StoreDown
from interlock.rooms.identity.model import PRINCIPALS, Caller, Principal
from interlock.rooms.identity.principals import EnsureLocalPerson
from interlock.service.keyring import Known
from interlock.service.local_kernel import local_user
from interlock.service.logs import Log
from interlock.service.service import Service
from interlock.service.settings import NO_FILE, TENANT_DEFAULT, embedded_store, settings_from, store_named
from interlock.store import store_for
from interlock.wire.http import Request, Response


class EmbeddedService:
    """An open service that answers requests directly."""

    def __init__(self, service: Service, local: Principal) -> None:
        self.service = service
        caller = Caller(tenant=local.tenant, principal=local.id)
        self._local = Known(caller, local)
        self._app: App[Known, Service] = assemble(service, Log(level="error"), who=self._who)

    async def respond(self, request: Request) -> Response:
        """Answer one request, as the server would."""
        most = self.service.settings.body_bytes_max
        if len(request.body) > most:
            return problem_response(too_large(most).problem)
        return await self._app.respond(request)

    async def close(self) -> None:
        await self.service.close()

    async def _who(self, request: Request, service: Service) -> Known:
        return await authenticate(request, service) if _has_key(request) else self._local


def _has_key(request: Request) -> bool:
    return "authorization" in request.headers or "x-api-key" in request.headers


async def open_embedded(store_url: str | None = None, *, makes_store: bool = True) -> EmbeddedService:
    """Open the embedded store (`INTERLOCK_STORE`, or `.interlock/interlock.db` in this folder or above it)."""
    settings = settings_from(  # a server's file is not for this
        config=NO_FILE, store=store_named(store_url) or embedded_store(), workers=1
    )
    store = store_for(settings.store, lanes=1, opening_seconds=settings.acquire_seconds, makes=makes_store)
    service = Service(store, settings)
    await service.open()
    try:
        return EmbeddedService(service, await _local_person(service))
    except BaseException as error:
        await service.close()
        if isinstance(error, Fault):
            raise StoreDown(error.detail) from error
        raise


async def _local_person(service: Service) -> Principal:
    """Looked up first: a process that only reads need not wait for the write lock."""
    name = f"local:{local_user()}"
    known = await service.store.get(PRINCIPALS, TENANT_DEFAULT, name)
    return known or await service.kernel.run(EnsureLocalPerson(tenant=TENANT_DEFAULT, name=name))

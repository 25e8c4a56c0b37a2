"""One open service: a store, a kernel on it, the keyring, metrics, and the background loops."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from datetime import datetime
from typing import TYPE_CHECKING

from interlock.kernel.clock import StoreTime
from interlock.kernel.ids import new_id
from interlock.kernel.kernel import Kernel
from interlock.kernel.storage import Store
from interlock.service.admission_stats import AdmissionStats
from interlock.service.compute_pool import ComputePool, Judgements
from interlock.service.event_feed import EventFeed
from interlock.service.keyring import Keyring
from interlock.service.measures import KernelMeasures, Measures, RelayMeasures, measure_store
from interlock.service.metrics import Registry
from interlock.service.permits import PermitSigner
from interlock.service.settings import Settings
from interlock.service.sweeps import Sweeps, Tallying, WorkflowEngine
from interlock.store import store_for

if TYPE_CHECKING:
    from interlock.service.channel import Channels
    from interlock.service.relays import Relaying


class Service:
    """What operations work with."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self.registry = Registry()
        self.measures = Measures(self.registry)
        self._store_time = StoreTime()
        self.compute_pool = ComputePool(self.registry)
        self.judgements = Judgements(self.compute_pool)
        self.kernel = Kernel(
            store,
            new_id=new_id,
            limits=settings.kernel_limits(),
            observer=KernelMeasures(self.registry, lambda: self.kernel.queue_depth),
            store_time=self._store_time,
            computing=self.judgements,
        )
        measure_store(self.registry, self._store_time)
        self.measures.attention.follow(self.now)
        self.keyring = Keyring(store, now=self.now)
        self.started_at = self.now()
        self.permits = PermitSigner(self.kernel, store, settings.secret)
        self.admission_stats = AdmissionStats(self.registry, now=self.now)
        self.is_stopping = False
        self.feed = EventFeed(store, self.kernel.wakes, self.registry)
        self.relay_measures = RelayMeasures(self.registry)
        self._relaying: Relaying | None = None
        self.workflows = WorkflowEngine(self.kernel, store)
        self.tallying = Tallying(self.kernel, self.admission_stats)
        self.sweeps = Sweeps(self.kernel, store, self.measures, every_seconds=settings.sweep_seconds)

    async def open(self, *, sweeping: bool = True, channels: Channels = ()) -> None:
        """Open the store, start the kernel, and begin to listen, to sweep and to relay through the channels.

        With channels it is a server: it has many callers, so slow computations run beside its event loop.
        """
        if channels:
            self.compute_pool.open()
        await self.store.open()
        self.kernel.start()
        await self.store.listen(self._heard)
        if sweeping:
            self.sweeps.start()
            self.workflows.start()
            self.tallying.start()
        if channels and self.settings.relay:
            self._start_relaying(channels)

    @property
    def store_time(self) -> StoreTime:
        """How the store's clock compares with this machine's, and what the store says of itself."""
        return self._store_time

    def now(self) -> datetime:
        """The time for everything that is shown: the store's, as far as it is known."""
        return self._store_time.now()

    def stop_waiting(self) -> None:
        """Answer every long poll now: the server wants to stop."""
        self.is_stopping = True
        self.feed.end_readers()
        self.kernel.wakes.publish_all()

    async def close(self) -> None:
        """Finish the accepted commands, then close the store."""
        if self._relaying:
            await self._relaying.close()
        await self.feed.close()
        await self.workflows.close()
        await self.sweeps.close()
        await self.tallying.close()
        await self.kernel.close()
        await self.compute_pool.close()
        await self.store.close()

    def _start_relaying(self, channels: Channels) -> None:
        # Imported here, so that a command that opens the store for a moment does not pay for it.
        from interlock.service.relays import Relaying

        self._relaying = Relaying(
            self.kernel, self.store, self.feed, self.relay_measures, self.settings, channels, now=self.now
        )
        self._relaying.start()

    def _heard(self, topics: frozenset[str] | None) -> None:
        self.keyring.forget()
        self.permits.forget()
        if topics is None:
            self.kernel.wakes.publish_all()
        else:
            self.kernel.wakes.publish(topics)


@contextlib.asynccontextmanager
async def open_service(
    settings: Settings, *, sweeping: bool = True, channels: Channels = (), makes_store: bool = True
) -> AsyncGenerator[Service]:
    """A service that is open inside the block. With channels it is a server, and relays."""
    service = Service(store_for(settings.store, lanes=settings.lanes, makes=makes_store), settings)
    await service.open(sweeping=sweeping, channels=channels)
    try:
        yield service
    finally:
        await service.close()

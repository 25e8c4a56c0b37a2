"""What is around a worker: the client it works through, and the signals that end it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Generator, Iterable

from interlock.sdk.async_client import AsyncInterlock
from interlock.sdk.client import Interlock


@contextlib.contextmanager
def calling(told: Callable[[], None], signals: Iterable[signal.Signals]) -> Generator[None]:
    """Call `told` for each of these signals. They are the main thread's; elsewhere there is `stop`."""
    loop = asyncio.get_running_loop()
    heard = tuple(signals) if threading.current_thread() is threading.main_thread() else ()
    for number in heard:
        loop.add_signal_handler(number, told)
    try:
        yield
    finally:
        for number in heard:
            loop.remove_signal_handler(number)


def async_client(
    client: Interlock | AsyncInterlock | str | None,
    key: str | None,
    store: str | None,
    *,
    make_store: bool = True,
) -> AsyncInterlock:
    if isinstance(client, AsyncInterlock):
        return client
    if not isinstance(client, Interlock):
        return AsyncInterlock(client, key, store=store, make_store=make_store)
    session = client.session
    twin = AsyncInterlock(
        client.url,
        session.key,
        store=None if client.url else client.store,
        retry=session.retry,
        on_retry=session.on_retry,
        timeout=session.timeout_seconds,
        make_store=client.make_store,
    )
    twin.transport = client.transport.in_loop()
    return twin

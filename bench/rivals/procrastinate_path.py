"""Procrastinate from deferred to finished. Prints jobs a second: of ready jobs, then of the whole way.

Usage: procrastinate_path.py DATABASE_URL COUNT WORKERS AT_A_TIME. The workers share a process, which on a small
machine is kinder to it than a process each, and each runs AT_A_TIME jobs at once.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from time import perf_counter

from procrastinate import App, PsycopgConnector


async def measure(url: str, count: int, workers: int, at_a_time: int) -> tuple[float, float]:
    """Rates of fetching and finishing what is ready, and of deferring, fetching and finishing."""
    app = App(connector=PsycopgConnector(conninfo=url, min_size=workers, max_size=4 * workers))
    ran: list[int] = []

    @app.task(name="pay")
    async def pay(number: int, invoice: str, amount_cents: int) -> None:
        ran.append(number)

    numbers = iter(range(count))

    async def defer() -> None:
        for number in numbers:
            await pay.defer_async(number=number, invoice=f"inv-{number}", amount_cents=25000)

    async def work() -> None:
        await app.run_worker_async(
            concurrency=at_a_time, wait=False, listen_notify=False, install_signal_handlers=False
        )

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        started = perf_counter()
        await asyncio.gather(*(defer() for _ in range(workers * at_a_time)))
        deferred = perf_counter()
        await asyncio.gather(*(work() for _ in range(workers)))
        finished = perf_counter()
    if sorted(ran) != list(range(count)):
        raise SystemExit(f"{len(ran)} of {count} jobs ran")
    return count / (finished - deferred), count / (finished - started)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    print(*asyncio.run(measure(sys.argv[1], *(int(word) for word in sys.argv[2:]))))

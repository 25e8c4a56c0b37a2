"""Pages of the console in a store that has grown: what the server takes for each, with few rows and with many.

Every list of a busy company is filled with copies, so that each page is full. Pages are asked for in this process, as
an admin who reviews; the browser and the wire are not in the figures.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import statistics
from pathlib import Path
from time import perf_counter

from bench.report import ratio, title
from bench.scene import folder
from interlock.cli.output import say
from interlock.store.sqlite.store import SqliteStore
from tests.console.busy_company import DEAD_AT_ONCE, long_history
from tests.harness.console_site import ConsoleSite, found_company
from tests.harness.full_store import Get, multiply, pages_of

# A count ends at a thousand and a page at fifty rows; beyond, nothing is to grow.
SIZES = (100, 10_000, 20_000)
ROUNDS = 9


def run() -> bool:
    """One line for each page; True if none takes longer in the largest store than in the one half as large."""
    with folder() as here:
        company = found_company(here / "company.db")
        (here / "site").mkdir()
        site = ConsoleSite(company, here / "site", env=DEAD_AT_ONCE).start()
        try:
            addresses = long_history(site)
            site.server.terminate()
        finally:
            site.close()
        stores = [_grown(here / "site" / "company.db", here / f"{size}.db", size) for size in SIZES]
        found = asyncio.run(_measured(stores, site.ann, addresses))
    return _told(found)


def _grown(source: Path, path: Path, rows: int) -> Path:
    shutil.copy(source, path)
    multiply(path, rows)
    return path


async def _measured(stores: list[Path], key: str, addresses: list[str]) -> dict[str, list[float]]:
    """Milliseconds of each page in each store: medians of turns."""
    async with contextlib.AsyncExitStack() as stack:
        places = [await stack.enter_async_context(pages_of(SqliteStore(path), key)) for path in stores]
        return {address: await _medians(places, address) for address in addresses}


async def _medians(places: list[Get], address: str) -> list[float]:
    times: list[list[float]] = [[] for _ in places]
    for _ in range(ROUNDS):
        for taken, get in zip(times, places, strict=True):
            started = perf_counter()
            answer = await get(address)
            taken.append((perf_counter() - started) * 1000)
            assert answer.status == 200, address
    return [statistics.median(taken[1:]) for taken in times]


def _told(found: dict[str, list[float]]) -> bool:
    title(f"Pages of the console, server time in ms, by rows in each list: {SIZES}")
    head = "".join(f"{f'{size:,}':>10}" for size in SIZES)
    say(f"  {'page':<44}{head}{'last / first':>14}{'last / middle':>15}")
    for address, (few, many, most) in found.items():
        page = re.sub(r"[a-z]{3}_[0-9a-f]{32}", "…", address)
        say(f"  {page:<44}{few:>10.1f}{many:>10.1f}{most:>10.1f}{most / few:>13.1f}x{most / many:>14.2f}x")
    _, many, most = (sum(each) for each in zip(*found.values(), strict=True))
    return ratio("all pages, largest store over the one half as large", most / many, 1.5, at_most=True)

"""Pages in a store with a long history: what a page reads does not grow with what happened before."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from interlock.console.pages import PAGES
from interlock.store.sqlite.store import SqliteStore
from tests.console.busy_company import DEAD_AT_ONCE, long_history
from tests.harness.console_site import Company, ConsoleSite
from tests.harness.full_store import multiply, pages_of

# Both are more than any page shows or counts: a count ends at a thousand.
FEW, MANY = 8_000, 16_000
# Not lists: signing in, the stream, and answers to forms, which show a page that is listed.
_NO_LISTS = re.compile(
    r"/console/(sign-in.*|events|sessions/end|.*/evidence/.*|(people|deliveries)/{\w+}/\w+)"
)


class CountingStore(SqliteStore):
    """Counts what is read from it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.reads: Counter[str] = Counter()

    async def query(self, name: str, *args: Any, **options: Any) -> list[Any]:
        return self._noted(name, await super().query(name, *args, **options))

    async def glance(self, name: str, *args: Any, **options: Any) -> list[Any]:
        return self._noted(name, await super().glance(name, *args, **options))

    async def get(self, kind: Any, *args: Any, **options: Any) -> Any:
        return self._noted(kind.name, [await super().get(kind, *args, **options)])[0]

    def _noted(self, name: str, rows: list[Any]) -> list[Any]:
        self.reads[f"times {name}"] += 1
        self.reads[f"rows of {name}"] += len(rows)
        return rows


def test_what_a_page_reads_does_not_grow_with_history(company: Company, tmp_path: Path) -> None:
    site = ConsoleSite(company, tmp_path, env=DEAD_AT_ONCE)
    addresses = long_history(site.start())
    site.server.terminate()
    site.close()
    _check_all_listed(addresses)
    few, many = (_reads(_grown(company, tmp_path, rows), site.ann, addresses) for rows in (FEW, MANY))
    grew = {address: dict(more) for address in addresses if (more := many[address] - few[address])}
    assert not grew


def _check_all_listed(addresses: list[str]) -> None:
    patterns = {page.path for page in PAGES if page.method == "GET" and not _NO_LISTS.fullmatch(page.path)}
    paths = [address.partition("?")[0] for address in addresses]
    missing = {each for each in patterns if not any(_fits(each, path) for path in paths)}
    assert not missing, "add an address for each of these pages to long_history"


def _fits(pattern: str, path: str) -> bool:
    return re.fullmatch(re.sub(r"{\w+}", "[^/]+", pattern), path) is not None


def _grown(company: Company, folder: Path, rows: int) -> Path:
    """A copy of the store in `folder` with at least so many rows in each table that lists show."""
    path = folder / f"{rows}.db"
    shutil.copy(folder / company.path.name, path)
    counts = multiply(path, rows)
    assert min(counts.values()) >= rows, counts
    return path


def _reads(path: Path, key: str, addresses: list[str]) -> dict[str, Counter[str]]:
    async def read() -> dict[str, Counter[str]]:
        found: dict[str, Counter[str]] = {}
        store = CountingStore(path)
        async with pages_of(store, key) as get:
            for address in addresses:
                await get(address)  # what is kept in memory after the first time is not counted
                store.reads = Counter()
                answer = await get(address)
                assert answer.status == 200, address
                found[address], store.reads = store.reads, Counter()
        return found

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, read()).result()

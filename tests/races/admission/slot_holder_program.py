"""Many clients in one process, each holding a slot until it is killed.

    python -m tests.races.admission.slot_holder_program

Prints one line once all of them hold, then holds for ever.
"""

from __future__ import annotations

import asyncio
import sys

from interlock import AsyncInterlock


async def main(urls: list[str], key: str, count: int, ttl: int) -> None:
    """Hold `count` slots, each through a client of its own."""
    holding = asyncio.Barrier(count)

    async def hold(number: int) -> None:
        async with AsyncInterlock(urls[number % len(urls)], key=key) as il, il.admit("w", ttl=ttl):
            await holding.wait()
            if number == 0:
                print("holding", flush=True)
            await asyncio.Event().wait()

    await asyncio.gather(*(hold(number) for number in range(count)))


if __name__ == "__main__":
    _, urls, key, count, ttl = sys.argv
    asyncio.run(main(urls.split(","), key, int(count), int(ttl)))

"""Interlock inside a FastAPI application, under /interlock.

Run it with `granian --interface asgi examples/fastapi_app.py:app`, and call it at http://127.0.0.1:8000/interlock.
The store and every other setting come from `INTERLOCK_<NAME>` and interlock.toml, as for `interlock serve`; make keys
with `interlock key create` on the same store. SQLite takes one process, so start one worker.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from interlock.api.asgi import create_app

interlock = create_app()


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Open the store before the first request, and close it after the last: a mount does not do that by itself."""
    async with interlock.opened(first_admin=False):
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/")
async def home() -> dict[str, str]:
    """A path of the application's own."""
    return {"interlock": "/interlock/docs"}


app.mount("/interlock", interlock)

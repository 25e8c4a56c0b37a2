"""Interlock inside a FastAPI application, under /interlock. It takes `pip install fastapi`.

    $ echo '{version: v1, rules: [{id: reads, when: {topic: knowledge.read}, decision: allow}]}' > policy.yaml
    $ interlock policy apply policy.yaml
    $ BOT=$(interlock key create bot --kind agent --roles submit)
    $ granian --interface asgi --port 8000 fastapi_app.py:app > serve.log 2>&1 &
    $ INTERLOCK_URL=http://127.0.0.1:8000/interlock INTERLOCK_KEY=$BOT interlock submit knowledge.read --key first

The store and every other setting come from `INTERLOCK_<NAME>` and interlock.toml, as for `interlock serve`. SQLite
takes one process, so start one worker.
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

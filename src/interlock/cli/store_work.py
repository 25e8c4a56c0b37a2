"""What an operator does on the store itself, with or without a running server."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from interlock.cli.options import given

if TYPE_CHECKING:
    from interlock.runtime.service import Service

T = TypeVar("T")


def on_store(args: Namespace, work: Callable[[Service], Awaitable[T]], *, makes_store: bool = False) -> T:
    """Do something on the store that the options or the environment name."""
    import asyncio

    from interlock.cli.connection import translated
    from interlock.runtime.service import open_service
    from interlock.runtime.settings import settings_from

    async def opened() -> T:
        settings = settings_from(store=given(args, "store"), workers=1)
        async with open_service(settings, sweeping=False, makes_store=makes_store) as service:
            return await work(service)

    with translated(args):
        return asyncio.run(opened())

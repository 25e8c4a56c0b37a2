"""What this server runs with, credentials hidden, and whether its store takes writes."""

from __future__ import annotations

from interlock.console.client import Refused
from interlock.console.visit import Notice, PageRoute, Visit, notice_of
from interlock.wire.http import Response
from interlock.wire.server import ServerSettings, StoreCheck


async def show(visit: Visit) -> Response:
    return await _page(visit)


async def check(visit: Visit) -> Response:
    """Write a few bytes to the store, and say what came of it."""
    try:
        found = await visit.api.ask("check_store", StoreCheck)
    except Refused as refused:
        return await _page(visit, notice=notice_of(refused.refusal))
    if found.trouble:
        text = f"The store takes no writes: {found.trouble}."
        return await _page(visit, notice=Notice(text=text, is_problem=True))
    room = "" if found.free_bytes is None else f" {_size(found.free_bytes)} are free on its volume."
    return await _page(visit, notice=Notice(text=f"The store takes writes.{room}"))


async def _page(visit: Visit, *, notice: Notice | None = None) -> Response:
    found = await visit.api.ask("get_settings", ServerSettings)
    given = [each for each in found.settings if each.source not in (None, "default")]
    usual = [each for each in found.settings if each.source in (None, "default")]
    return await visit.page("settings.html", notice=notice, server=found, given=given, usual=usual)


def _size(count: int) -> str:
    size = float(count)
    for unit in ("bytes", "KB", "MB", "GB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} TB"


PAGES = (
    PageRoute(path="/console/settings", answer=show, operation="get_settings"),
    PageRoute(method="POST", path="/console/settings", answer=check, operation="check_store"),
)

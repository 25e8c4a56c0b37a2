"""`interlock approvals --watch`: what waits for the caller, and each new request as it comes."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

from interlock.cli.approvals import summary
from interlock.cli.connection import connected
from interlock.cli.options import wants_json
from interlock.cli.output import counted, exactly, painted, say, say_json_line, warn, when
from interlock.sdk.outcomes import Unavailable

if TYPE_CHECKING:
    from interlock.sdk.client import Interlock
    from interlock.wire.approvals import InboxItem

PAGE_MAX = 200
WAITING_MAX = 2_000  # how many requests are remembered as told
# A request may come to wait for a reviewer without an event: a group was given, the time of an escalation came.
LOOK_SECONDS = 10.0
AWAY_SECONDS = 0.5


def watch_inbox(args: Namespace) -> NoReturn:
    """Print each request once, also each that was edited or asked anew, until interrupted."""
    told: set[tuple[str, str | None, int]] = set()
    is_first = True
    with connected(args) as client:
        after = client.events(limit=1).next_after
        while True:
            waiting = list(_patient_inbox(client, args))
            for item in waiting:
                if _version(item) not in told:
                    _say(item, args)
            # One that left is forgotten: it is told again if it comes back.
            told = {_version(item) for item in waiting}
            if is_first and not wants_json(args):
                warn(f"{counted(len(waiting), 'request')} waiting for you; new ones follow, Ctrl-C ends this")
            is_first = False
            after = _next_change(client, after)


def inbox_items(client: Interlock) -> Iterator[InboxItem]:
    """What waits for the caller, the most urgent first, page by page."""
    cursor: str | None = None
    while True:
        page = client.get_inbox(limit=PAGE_MAX, cursor=cursor)
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return


def _patient_inbox(client: Interlock, args: Namespace) -> list[InboxItem]:
    """The inbox. A server that is away is waited for: what came meanwhile is in the next one."""
    is_told = False
    while True:
        try:
            return [item for item, _ in zip(inbox_items(client), range(WAITING_MAX), strict=False)]
        except Unavailable as away:
            if not is_told and not wants_json(args):
                warn(f"{away}; going on when it is back")
            is_told = True
            time.sleep(AWAY_SECONDS)


def _next_change(client: Interlock, after: int) -> int:
    """Wait for the next event, or a while; returns the position to go on after."""
    try:
        return client.events(after=after, limit=PAGE_MAX, wait_seconds=LOOK_SECONDS).next_after
    except Unavailable:
        return after  # the next look at the inbox waits until it is back


def _version(item: InboxItem) -> tuple[str, str | None, int]:
    return item.id, item.job_hash, item.approval.round if item.approval else 0


def _say(item: InboxItem, args: Namespace) -> None:
    if wants_json(args):
        say_json_line(item)
        return
    asked = exactly(item.approval.requested_at if item.approval else None)
    say(f"{asked}  {painted(item.id, 'bold')}  {summary(item)}; expires {when(item.ends_at)}")

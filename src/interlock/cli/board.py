"""`interlock board`: a live view of what waits for people, who owns what, until when, and what collided."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from interlock.cli.exits import Exit
from interlock.cli.options import Parser, finished, wants_json
from interlock.cli.output import Cell, Table, listed, painted, say, say_json, when

if TYPE_CHECKING:
    from interlock.sdk.client import Interlock
    from interlock.wire.admission import Run
    from interlock.wire.approvals import ApprovalItem
    from interlock.wire.leases import Lease, Waiter
    from interlock.wire.shared import Conflict

_ROWS_MAX = 50
_HOME_AND_CLEAR = "\x1b[H\x1b[J"
_EVERY_SECONDS = 1.0

Frame = dict[str, list[Any]]


def declare_board() -> Parser:
    """The options of `interlock board`."""
    parser = Parser(
        "interlock board",
        description="Show requests that wait for approval, leases, callers that wait for one, open conflicts and "
        "running runs, again every second. End with Ctrl-C.",
        examples=("interlock board", "interlock board --once --json"),
    )
    parser.add_argument("--once", action="store_true", help="print the board once, and end")
    return finished(parser, run_board)


def run_board(args: Namespace) -> int:
    """Print the board once, or again and again. Into a pipe, once: nothing there can be drawn over."""
    from interlock.cli.connection import connected

    with connected(args) as client:
        if args.once or wants_json(args) or not sys.stdout.isatty():
            _show(args, read_board(client))
            return Exit.DONE
        while True:
            frame = read_board(client)
            sys.stdout.write(_HOME_AND_CLEAR)
            _show(args, frame)
            sys.stdout.flush()
            time.sleep(_EVERY_SECONDS)


def read_board(client: Interlock) -> Frame:
    """What there is to show now, bounded, as the service spells it."""
    from interlock.cli.connection import typed
    from interlock.wire.leases import Lease

    leases = _items(client, "leases", query={"live": "true", "limit": _ROWS_MAX})
    return _waiting_approvals(client) | {
        "leases": [lease for lease in leases if typed(lease, Lease).state != "stale"],
        "waiting": _items(client, "leases", "waiting")[:_ROWS_MAX],
        "conflicts": _items(client, "conflicts", query={"state": "open", "limit": _ROWS_MAX}),
        "runs": _items(client, "workflow-runs", query={"state": "running", "limit": _ROWS_MAX}),
    }


def _waiting_approvals(client: Interlock) -> Frame:
    """Requests that wait for people; for a worker, who may not read them, that part is left out."""
    from interlock.sdk.outcomes import Forbidden

    try:
        return {"approvals": _items(client, "approvals", query={"state": "pending", "limit": _ROWS_MAX})}
    except Forbidden:
        return {}


def _items(client: Interlock, *segments: str, query: Mapping[str, Any] | None = None) -> list[Any]:
    from interlock.cli.connection import typed
    from interlock.wire.fields import Page

    return list(typed(client.call("GET", *segments, query=query or {}), Page[Any]).items)


def _show(args: Namespace, frame: Frame) -> None:
    from interlock.cli.connection import typed
    from interlock.wire.admission import Run
    from interlock.wire.approvals import ApprovalItem
    from interlock.wire.leases import Lease, Waiter
    from interlock.wire.shared import Conflict

    if wants_json(args):
        say_json(frame)
        return
    say(painted(f"Interlock  {datetime.now(UTC):%H:%M:%S} UTC", "bold"))
    kinds: Mapping[str, type] = {
        "approvals": ApprovalItem,
        "leases": Lease,
        "waiting": Waiter,
        "conflicts": Conflict,
        "runs": Run,
    }
    for name, (title, nothing, show) in _PARTS.items():
        if name not in frame:
            continue
        say("", painted(title, "bold"))
        if frame[name]:
            show([typed(item, kinds[name]) for item in frame[name]])
        else:
            say(painted(nothing, "dim"))


def _say_approvals(requests: Sequence[ApprovalItem]) -> None:
    (
        Table(requests)
        .column("ID", lambda request: request.id)
        .column("TOPIC", lambda request: request.topic, flexible=True)
        .column("ASKED BY", lambda request: request.submitted_by or "-", flexible=True, optional=True)
        .column("EXPIRES", lambda request: when(request.approval.expires_at) if request.approval else "-")
        .say()
    )


def _say_owners(leases: Sequence[Lease]) -> None:
    from interlock.cli.leases import say_leases

    say_leases(leases)


def _say_waiting(places: Sequence[Waiter]) -> None:
    (
        Table(places)
        .column("WHO", lambda place: place.principal, flexible=True)
        .column("FOR", lambda place: place.resource, flexible=True)
        .column("HOW", lambda place: "kept for them" if place.kept else place.mode)
        .column("SINCE", lambda place: when(place.since))
        .say()
    )


def _say_conflicts(conflicts: Sequence[Conflict]) -> None:
    (
        Table(conflicts)
        .column("ID", lambda conflict: conflict.id)
        .column("KIND", lambda conflict: Cell(conflict.kind, "red"))
        .column("ON", lambda conflict: conflict.target, flexible=True)
        .column(
            "WHO", lambda conflict: listed(sorted({side.actor for side in conflict.competing})), flexible=True
        )
        .say()
    )


def _say_runs(runs: Sequence[Run]) -> None:
    (
        Table(runs)
        .column("ID", lambda run: run.run_id)
        .column("WORKFLOW", lambda run: run.workflow, flexible=True)
        .column("SLOT UNTIL", lambda run: when(run.slot_expires_at))
        .say()
    )


_PARTS: Mapping[str, tuple[str, str, Callable[[list[Any]], None]]] = {
    "approvals": ("Requests for approval", "no request waits for approval", _say_approvals),
    "leases": ("Leases", "no lease is held", _say_owners),
    "waiting": ("Waiting callers", "no caller waits", _say_waiting),
    "conflicts": ("Open conflicts", "no conflict is open", _say_conflicts),
    "runs": ("Runs", "no run holds a slot", _say_runs),
}

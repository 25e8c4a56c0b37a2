"""Every page of the console: where it is, and the function that answers."""

from __future__ import annotations

from interlock.console import (
    approval,
    audit,
    board,
    conflicts,
    deliveries,
    effects,
    grants,
    inbox,
    jobs,
    live,
    people,
    policy,
    runs,
    settings,
    sign_in,
    traffic,
    workflows,
)
from interlock.console.route import PageRoute

PAGES: tuple[PageRoute, ...] = (
    *sign_in.PAGES,
    *inbox.PAGES,
    *approval.PAGES,
    *jobs.PAGES,
    *board.PAGES,
    *conflicts.PAGES,
    *effects.PAGES,
    *grants.PAGES,
    *runs.PAGES,
    *workflows.PAGES,
    *policy.PAGES,
    *audit.PAGES,
    *traffic.PAGES,
    *deliveries.PAGES,
    *people.PAGES,
    *settings.PAGES,
    *live.PAGES,
)

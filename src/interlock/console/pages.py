"""Every page of the console: where it is, and the function that answers."""

from __future__ import annotations

from interlock.console import (
    approval,
    board,
    conflicts,
    effects,
    grants,
    inbox,
    jobs,
    live,
    policy,
    runs,
    sign_in,
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
    *live.PAGES,
)

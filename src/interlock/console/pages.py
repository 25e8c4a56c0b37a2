"""Every page of the console: where it is, and the function that answers."""

from __future__ import annotations

from interlock.console import approval, grants, inbox, live, policy, runs, sign_in, workflows
from interlock.console.route import PageRoute

PAGES: tuple[PageRoute, ...] = (
    *sign_in.PAGES,
    *inbox.PAGES,
    *approval.PAGES,
    *grants.PAGES,
    *runs.PAGES,
    *workflows.PAGES,
    *policy.PAGES,
    *live.PAGES,
)

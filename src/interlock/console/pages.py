"""Every page of the console: where it is, and the function that answers."""

from __future__ import annotations

from interlock.console import approval, audit, deliveries, inbox, live, people, settings, sign_in, traffic
from interlock.console.route import PageRoute

PAGES: tuple[PageRoute, ...] = (
    *sign_in.PAGES,
    *inbox.PAGES,
    *approval.PAGES,
    *audit.PAGES,
    *traffic.PAGES,
    *deliveries.PAGES,
    *people.PAGES,
    *settings.PAGES,
    *live.PAGES,
)

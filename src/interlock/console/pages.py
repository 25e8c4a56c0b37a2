"""Every page of the console: where it is, and the function that answers."""

from __future__ import annotations

from interlock.console import approval, inbox, live, sign_in
from interlock.console.route import PageRoute

PAGES: tuple[PageRoute, ...] = (
    *sign_in.PAGES,
    *inbox.PAGES,
    *approval.PAGES,
    *live.PAGES,
)

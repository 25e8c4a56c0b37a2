"""Where a page is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from interlock.console.visit import Visit
from interlock.wire.http import Response


class PageRoute(msgspec.Struct, frozen=True, kw_only=True):
    """One page, or one thing that a form does. `public`: also for people who are not signed in.

    `operation` is the one of the API that it needs: a visitor who may not call that is neither shown the page nor
    offered the form.
    """

    path: str
    answer: Callable[[Visit], Awaitable[Response]]
    operation: str = ""
    method: str = "GET"
    public: bool = False

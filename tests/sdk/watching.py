"""What becomes of the calls that come to an embedded store."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.api.http import Request, Response
from interlock.kernel.kernel import Kernel
from interlock.runtime.lone_calls import LoneCalls

ALLOW = {"version": "v1", "default": "allow", "rules": []}


class Watched:
    """What became of the calls that came to a store."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.alone: list[str] = []
        self.on_the_loop: list[str] = []
        self.is_shut = False
        respond, run = LoneCalls.respond, Kernel.run

        def watched(calls: LoneCalls, request: Request, timeout_seconds: float) -> Response | None:
            answer = None if self.is_shut else respond(calls, request, timeout_seconds)
            if answer is not None:
                self.alone.append(calls._app._router.find(request.method, request.path)[0].id)
            return answer

        async def ran(kernel: Kernel, command: Any, **options: Any) -> Any:
            self.on_the_loop.append(type(getattr(command, "inner", command)).__name__)
            return await run(kernel, command, **options)

        monkeypatch.setattr(LoneCalls, "respond", watched)
        monkeypatch.setattr(Kernel, "run", ran)

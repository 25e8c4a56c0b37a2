"""Clients of real servers who write down what they asked, what came back and when, by this machine's clock.

An answer that does not come in time, or a connection that breaks, leaves the outcome unknown. An answer that says
that nothing was decided leaves no trace.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from typing import Any

from tests.harness.load import Answer, Connection, post
from tests.linearizability.checker import Operation

PATIENCE_SECONDS = 1.2
NOTHING_DECIDED = frozenset({"store_unavailable", "overloaded", "admission_unavailable"})


class Client:
    """One caller. It asks any server, one request at a time."""

    def __init__(self, name: str, urls: list[str], keys: Mapping[str, Mapping[str, str]], seed: int) -> None:
        self.name = name
        self.chance = random.Random(seed)
        self.memory: dict[str, Any] = {}
        self.history: list[Operation] = []
        self._keys = keys
        self._lines = [Connection(url) for url in urls]

    async def ask(self, key: str, call: str, given: Any, path: str, body: object, *, by: str = "bot") -> Any:
        """Send one request. The answer if there was one; else it is in the history as unknown, or not at all."""
        line = self.chance.choice(self._lines)
        request = post(f"/api/v1/{path}", body, headers=self._keys[by]).encode()
        invoked = time.time()
        answer = await self._send(line, request)
        if answer is None:
            self.record(key, call, given, invoked)
        elif answer.error == "ConnectionRefusedError":
            return None
        elif answer.status == 0 or answer.word == "outcome_unknown":
            self.record(key, call, given, invoked)
        elif answer.status < 500 or answer.word not in NOTHING_DECIDED:
            return answer, invoked
        return None

    def record(self, key: str, call: str, given: Any, invoked: float, *answer: Any) -> None:
        """Write down a call, with its answer if there was one."""
        known = {"answer": answer[0], "answered": time.time()} if answer else {}
        self.history.append(
            Operation(key=key, call=call, given=given, invoked=invoked, client=self.name, **known)
        )

    async def _send(self, line: Connection, request: bytes) -> Answer | None:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await line.send(request)
        except TimeoutError:
            line.close()
            return None

    def close(self) -> None:
        for line in self._lines:
            line.close()

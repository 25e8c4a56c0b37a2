"""Small things to call, each right unless a bug is planted in it."""

from __future__ import annotations

import random
from typing import Any

from tests.linearizability.models import LeaseAnswer
from tests.linearizability.simulated_histories import Choice

TTL = 3.0


class Lock:
    """An exclusive lease. Bugs: "grants twice", "fence goes back", "late renewal", "stale check"."""

    def __init__(self, bug: str = "") -> None:
        self._bug = bug
        self._fence, self._holder, self._ends = 0, 0, 0.0
        self._mine: dict[str, int] = {}
        self._released: set[int] = set()

    def choose(self, client: str, chance: random.Random) -> Choice:
        fence = self._mine.get(client)
        if fence is None or chance.random() < 0.3:
            return "acquire", TTL
        call = chance.choice(["renew", "check", "check", "release"])
        return call, (fence, TTL) if call == "renew" else fence

    def apply(self, call: str, given: Any, client: str, now: float) -> Any:
        if call == "acquire":
            return self._acquire(now)
        if call == "renew":
            return self._renew(given[0], now)
        if call == "release":
            return self._release(given, now)
        return self._is_current(given, now) or self._bug == "stale check"

    def told(self, client: str, call: str, answer: Any) -> None:
        if call == "acquire" and answer != "held":
            self._mine[client] = answer.fence

    def _acquire(self, now: float) -> Any:
        is_free = not self._holder or now >= self._ends
        if not is_free and not (self._bug == "grants twice" and now >= self._ends - TTL / 2):
            return "held"
        self._fence += -1 if self._bug == "fence goes back" and self._fence > 3 else 1
        self._holder, self._ends = self._fence, now + TTL
        return LeaseAnswer(self._fence, now, self._ends)

    def _renew(self, fence: int, now: float) -> Any:
        is_late = self._bug == "late renewal" and fence == self._holder
        if not self._is_current(fence, now) and not is_late:
            return "stale"
        self._ends = now + TTL
        return LeaseAnswer(fence, now, self._ends)

    def _release(self, fence: int, now: float) -> str:
        if fence in self._released:
            return "ok"
        if not self._is_current(fence, now):
            return "stale"
        self._holder = 0
        self._released.add(fence)
        return "ok"

    def _is_current(self, fence: int, now: float) -> bool:
        return fence == self._holder and now < self._ends


class Vote:
    """An approval. Bugs: "last one wins", "forgets"."""

    def __init__(self, bug: str = "") -> None:
        self._bug = bug
        self._state = "pending"

    def choose(self, client: str, chance: random.Random) -> Choice:
        return chance.choice(["approve", "reject"]), None

    def apply(self, call: str, given: Any, client: str, now: float) -> str:
        verdict = {"approve": "approved", "reject": "rejected"}[call]
        if self._state == "pending" or (self._bug == "last one wins" and self._state != verdict):
            self._state = verdict
            return verdict
        answer = f"already_{self._state}"
        if self._bug == "forgets" and now > 5:
            self._state, self._bug = "pending", ""
        return answer

    def told(self, client: str, call: str, answer: Any) -> None:
        """Nobody needs to remember anything."""


class Tokens:
    """A grant with three uses. Bugs: "one too many", "lost update"."""

    USES = 3

    def __init__(self, bug: str = "") -> None:
        self._bug = bug
        self._claims: list[str] = []
        self._number = 0

    def choose(self, client: str, chance: random.Random) -> Choice:
        self._number += 1
        return "claim", f"e{chance.randrange(self._number)}"

    def apply(self, call: str, given: Any, client: str, now: float) -> Any:
        if given in self._claims:
            return self._claims.index(given) + 1
        if len(self._claims) >= self.USES + (self._bug == "one too many"):
            return "spent"
        if self._bug == "lost update" and len(self._claims) == 2:
            self._bug = ""
            return 3  # and it is not written down
        self._claims.append(given)
        return len(self._claims)

    def told(self, client: str, call: str, answer: Any) -> None:
        """Nobody needs to remember anything."""


class Payment:
    """An effect. Bugs: "begins twice", "stale read"."""

    def __init__(self, bug: str = "") -> None:
        self._bug = bug
        self._phase, self._fence = "new", 0
        self._mine: dict[str, int] = {}

    def choose(self, client: str, chance: random.Random) -> Choice:
        if client in self._mine and chance.random() < 0.5:
            return "commit", self._mine[client]
        return "begin", None

    def apply(self, call: str, given: Any, client: str, now: float) -> Any:
        if call == "commit":
            self._phase = "committed"
            return "committed"
        if self._phase == "new" or (self._bug == "begins twice" and self._fence < 2):
            self._phase = "running"
            self._fence += 1
            return self._fence
        if self._phase == "committed" and self._bug != "stale read":
            return "replayed"
        return "in_progress"

    def told(self, client: str, call: str, answer: Any) -> None:
        if isinstance(answer, int):
            self._mine[client] = answer


class Gate:
    """An admission counter of two. Bugs: "leaks a slot", "counts late"."""

    LIMIT = 2

    def __init__(self, bug: str = "") -> None:
        self._bug = bug
        self._running: set[str] = set()
        self._leaked = 0
        self._number = 0
        self._mine: dict[str, list[str]] = {}
        self._asked: dict[str, str] = {}

    def choose(self, client: str, chance: random.Random) -> Choice:
        mine = self._mine.setdefault(client, [])
        if mine and chance.random() < 0.6:
            return "complete", mine.pop()
        self._number += 1
        self._asked[client] = f"r{self._number}"
        return "start", self._asked[client]

    def apply(self, call: str, given: Any, client: str, now: float) -> str:
        if call == "complete":
            self._running.discard(given)
            self._leaked += self._bug == "leaks a slot" and now > 5
            return "completed"
        if len(self._running) + self._leaked >= self.LIMIT + (self._bug == "counts late"):
            return "full"
        self._running.add(given)
        return "admitted"

    def told(self, client: str, call: str, answer: Any) -> None:
        if answer == "admitted":
            self._mine[client].append(self._asked[client])

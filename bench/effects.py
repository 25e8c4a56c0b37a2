"""Effects: begin and commit against the same server without a store, and beside a long history."""

from __future__ import annotations

import msgspec

from bench import history
from bench.cycles import CONNECTIONS, Caller, on_both_stores
from bench.report import figure, interleaved, ratio, title
from interlock.kernel.ids import new_id
from interlock.rooms.effects.model import EFFECTS
from interlock.rooms.effects.settlement import CommitEffect
from interlock.rooms.identity import model as identity
from interlock.rooms.jobs.effect_intent import BeginEffect
from interlock.service.service import Service
from tests.harness.load import Connection

CYCLES = 1500
_HASH = "sha256:5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"


class Acting:
    """A caller that acts once, again and again."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def effects(self) -> float:
        """Requests a second in cycles of begin and commit of distinct actions."""
        return 2 * self._caller.rate(CYCLES, self._effect)

    async def _effect(self, line: Connection, number: int) -> None:
        path = f"effects/refund-{self._caller.turn}-{number}"
        begun = await self._caller.ask(line, f"{path}/begin", {"request_hash": _HASH})
        result = {"fence": begun.json()["fence"], "result": {"receipt": "r-88"}}
        await self._caller.ask(line, f"{path}/commit", result)


def run() -> bool:
    """Both stores; True if every goal was met."""
    works = [history.Work("begin and commit", "finished effects", cycle, finished)]
    return on_both_stores(_measure) & history.compare(works)


def _measure(name: str, durable: Caller, bare: Caller) -> bool:
    acting, null = Acting(durable), Acting(bare)
    found = interleaved({"null effects": null.effects, "effects": acting.effects})
    title(f"Effects on {name}: {CONNECTIONS} connections")
    figure("begin and commit without a store: requests", found["null effects"], "a second")
    figure("begin and commit: requests", found["effects"], "a second")
    return ratio("durable effects over none", found["effects"] / found["null effects"], 0.15)


async def cycle(service: Service, bot: identity.Caller, number: int) -> str:
    """Begin and commit one action; its id."""
    action = f"refund:{new_id('act')}"
    begun = await service.kernel.run(BeginEffect(caller=bot, action_id=action, request_hash=_HASH))
    result = msgspec.Raw(b'{"receipt":"r-88"}')
    fence = begun.effect.fence
    await service.kernel.run(CommitEffect(caller=bot, action_id=action, fence=fence, result=result))
    return action


async def finished(service: Service, bot: identity.Caller) -> history.Records:
    """A committed effect."""
    return {EFFECTS: (await cycle(service, bot, 0), ("id", "uid"))}

"""The scenes of the demo, in order. A new scene is a `play_…` function here and a line in the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from interlock.demo.scenes import decisions, workers

if TYPE_CHECKING:
    from interlock.demo.server import Company
    from interlock.demo.story import Promise, Story

Play: TypeAlias = "Callable[[Company, Story], list[Promise]]"


class Scene(NamedTuple):
    """One scene: `play` tells it and returns what Interlock promised, each kept or not."""

    title: str
    play: Play


SCENES: tuple[Scene, ...] = (
    Scene("A payment that needs two people", decisions.play_two_people),
    Scene("Forty people decide one refund at the same moment", decisions.play_race),
    Scene("The policy changes under a pending request", decisions.play_policy_change),
    Scene("An agent that is not sure asks again", decisions.play_replay),
    Scene("The power goes out between two votes", decisions.play_crash),
    Scene("Workers are killed in the middle of their work", workers.play_workers),
    Scene("Two agents and a person work on one ticket", workers.play_shared_ticket),
)

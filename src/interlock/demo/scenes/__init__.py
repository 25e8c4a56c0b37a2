"""The scenes of the demo, in order. A new scene is a module here and a line in the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from interlock.demo.scenes import crash, policy_change, race, replay, shared_ticket, two_people, workers

if TYPE_CHECKING:
    from interlock.demo.company import Company
    from interlock.demo.story import Promise, Story

Play: TypeAlias = "Callable[[Company, Story], list[Promise]]"


class Scene(NamedTuple):
    """One scene: `play` tells it and returns what Interlock promised, each kept or not."""

    title: str
    play: Play


SCENES: tuple[Scene, ...] = (
    Scene("A payment that needs two people", two_people.play),
    Scene("Forty people decide one refund at the same moment", race.play),
    Scene("The policy changes under a pending request", policy_change.play),
    Scene("An agent that is not sure asks again", replay.play),
    Scene("The power goes out between two votes", crash.play),
    Scene("Workers are killed in the middle of their work", workers.play),
    Scene("Two agents and a person work on one ticket", shared_ticket.play),
)

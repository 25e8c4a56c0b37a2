"""Plays the scenes one after the other on one stage, and reports whether every promise was kept."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Generator, Sequence
from types import FrameType

from interlock.cli.output import counted, painted, say
from interlock.demo.company import Company
from interlock.demo.scenes import Scene
from interlock.demo.stage import Stage, StageBroken
from interlock.demo.story import Promise, Story


def perform(scenes: Sequence[Scene]) -> bool:
    """Play the scenes; True if every promise was kept."""
    story, begun = Story(), time.monotonic()
    say("A server starts on a temporary store. Everything below is real: real requests, real answers.")
    with _ending_tidily():
        stage = Stage()
        try:
            with stage:
                _play(scenes, Company(stage), story)
        except StageBroken as broken:
            story.keep([Promise(f"the stage holds ({broken})", kept=False)])
    say("")
    story.keep([Promise("the server is gone, and so is its folder", stage.is_cleared)])
    return _concluded(story, time.monotonic() - begun)


def _concluded(story: Story, seconds: float) -> bool:
    if story.broken:
        say(
            "", painted(f"{counted(len(story.broken), 'promise')} not kept, of {len(story.promises)}:", "red")
        )
        say(*(f"   {promise.text}" for promise in story.broken))
        return False
    kept = painted(f"all {len(story.promises)} promises kept", "green")
    say("", f"{kept} in {seconds:.0f} seconds", "", *_NEXT)
    return True


def _play(scenes: Sequence[Scene], company: Company, story: Story) -> None:
    for scene in scenes:
        story.begin(scene.title)
        try:
            story.end(scene.play(company, story))
        except (StageBroken, KeyError, TypeError) as error:
            # An answer without what it must have is a promise broken too, not a crash of the demo.
            detail = f"{type(error).__name__}: {error}; the server's log ends:\n{company.stage.log_end()}"
            story.keep([Promise(f"the scene can be played to its end ({detail})", kept=False)])
            return


@contextlib.contextmanager
def _ending_tidily() -> Generator[None]:
    """Whoever ends the demo from outside ends it the way Ctrl-C does: nothing is left behind."""
    before = {number: signal.signal(number, _leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


_NEXT = (
    "Try it yourself:",
    "   interlock policy check policy.yaml        write a policy",
    "   interlock serve --policy policy.yaml      run a server; it prints an admin key",
    "   interlock --help                          everything else",
)

"""`interlock demo`: plays the scenes one after the other on one server, and reports whether every promise was kept."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Generator, Sequence
from types import FrameType

from interlock.cli.exits import Exit, Failed
from interlock.cli.options import Parser
from interlock.cli.output import counted, painted, say
from interlock.demo.scenes import SCENES, Scene
from interlock.demo.server import Company, DemoBroken, DemoServer
from interlock.demo.story import Promise, Story


def declare_demo() -> Parser:
    """The options of `interlock demo`."""
    parser = Parser(
        "interlock demo",
        description="Start a server on a temporary store, play a few scenes against it with real clients,\n"
        "and check what Interlock promises. Takes about 15 seconds and leaves nothing behind.\n"
        "Exit code 1 if a promise was not kept. With --open, the server stays instead, filled with a company's day,\n"
        "for you to look at in a browser.",
        examples=("interlock demo", "interlock demo --scene 2", "interlock demo --open"),
        more="\n".join(("scenes:", *_listed())) + "\n",
    )
    one = parser.add_mutually_exclusive_group()
    one.add_argument(
        "--scene", nargs="?", const="", metavar="N", help="play this scene alone; without N, list them"
    )
    one.add_argument("--open", action="store_true", help="fill a server, print a sign-in link, and stay")
    parser.set_defaults(run=run_demo)
    return parser


def run_demo(args: Namespace) -> int:
    """Play every scene or one, list them, or show a company's day."""
    if args.scene == "":
        say(
            "Scenes:",
            *_listed(),
            "",
            "Play one with `interlock demo --scene N`, and all with `interlock demo`.",
        )
        return Exit.DONE
    if args.scene is not None:
        number = _number(args.scene)
        return Exit.DONE if perform(SCENES[number - 1 : number], first=number) else Exit.ERROR
    if args.open:
        from interlock.demo.showcase import show

        show()
        return Exit.DONE
    return Exit.DONE if perform(SCENES) else Exit.ERROR


def _listed() -> list[str]:
    return [f"  {number}  {scene.title}" for number, scene in enumerate(SCENES, start=1)]


def _number(word: str) -> int:
    """The number of a scene that there is."""
    if word.isascii() and word.isdigit() and 1 <= int(word) <= len(SCENES):
        return int(word)
    raise Failed(
        f"there is no scene {word!r}; scenes have the numbers 1 to {len(SCENES)}, "
        "and `interlock demo --scene` lists them",
        Exit.USAGE,
        name="no_scene",
    )


def perform(scenes: Sequence[Scene], *, first: int = 1) -> bool:
    """Play the scenes, numbered from `first`; True if every promise was kept."""
    story, begun = Story(first), time.monotonic()
    say("A server starts on a temporary store. Everything below is real: real requests, real answers.")
    with _ending_tidily():
        server = DemoServer()
        try:
            with server:
                _play(scenes, Company(server), story)
        except DemoBroken as broken:
            story.keep([Promise(f"the server starts and answers ({broken})", kept=False)])
    say("")
    story.keep([Promise("the server is gone, and so is its folder", server.is_cleared)])
    return _concluded(story, time.monotonic() - begun)


def _concluded(story: Story, seconds: float) -> bool:
    if story.broken:
        say(
            "", painted(f"{counted(len(story.broken), 'promise')} not kept, of {len(story.promises)}:", "red")
        )
        say(*(f"   {promise.text}" for promise in story.broken))
        return False
    kept = painted(f"all {len(story.promises)} promises kept", "green")
    say("", f"{kept} in {counted(round(seconds), 'second')}", "", *_NEXT)
    return True


def _play(scenes: Sequence[Scene], company: Company, story: Story) -> None:
    for scene in scenes:
        story.begin(scene.title)
        try:
            story.end(scene.play(company, story))
        except (DemoBroken, KeyError, TypeError) as error:
            # An answer without what it must have is a promise broken too, not a crash of the demo.
            detail = f"{type(error).__name__}: {error}; the server's log ends:\n{company.server.log_end()}"
            story.keep([Promise(f"the scene can be played to its end ({detail})", kept=False)])
            return


@contextlib.contextmanager
def _ending_tidily() -> Generator[None]:
    """Let SIGTERM and SIGHUP end the demo as Ctrl-C does: nothing is left behind."""
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
    "   interlock init             a policy and an example to run, in a folder of your own",
    "   interlock demo --open      a server full of requests, to look at in your browser",
    "   interlock --help           everything else",
)

"""`interlock doctor`: looks for problems; each finding says since when, and what to do about it.

With `--after-restore` or `--repair-clock` it makes the repairs that only an operator at the store can make.
"""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from interlock.cli.exits import Exit, Failed
from interlock.cli.options import Parser, finished, given, wants_json

if TYPE_CHECKING:
    from interlock.cli.examination import Finding
    from interlock.kernel.store_state import Repaired


_EXPLAINED = """\
The store's clock is {ahead} ahead of this machine's. Time in a store never goes back by itself.
First make sure that this machine's clock is right: it now says {wall}.
With --yes, in one transaction:
  - times that the wrong clock wrote (from {since} on, {records}) are moved back by
    {ahead}, so that what had ten seconds left still has ten seconds left;
  - what ends later than that and was given before the clock went wrong ends earlier by as much;
  - audit entries keep the times they have, ids and fences stay as they are and go on growing;
  - an audit entry says what was done. Servers may keep running: their next decision goes by the new time."""


def run_upkeep(args: Namespace) -> int:
    """Do to the store what the options say, and print what was done."""
    if given(args, "url"):
        option = "--after-restore" if args.after_restore else "--repair-clock"
        raise Failed(
            f"{option} works on the store itself; leave --url out, and name it with --store", Exit.USAGE
        )
    return _after_restore(args) if args.after_restore else _repair_clock(args)


def _after_restore(args: Namespace) -> int:
    from interlock.cli.init import on_store
    from interlock.cli.output import say, say_json
    from interlock.service.operator import raise_fences

    state = on_store(args, lambda service: raise_fences(service, "interlock doctor --after-restore"))
    if wants_json(args):
        say_json({"epoch": state.epoch, "fence_floor": state.fence_floor})
    else:
        say(
            f"fences are in epoch {state.epoch}: every one from now on is greater than {state.fence_floor}, "
            "and so than all that were handed out before"
        )
    return Exit.DONE


def _repair_clock(args: Namespace) -> int:
    from interlock.cli.init import on_store
    from interlock.cli.output import say, say_json
    from interlock.service.operator import NothingToRepair, repair_clock

    try:
        found = on_store(args, lambda service: repair_clock(service, only_look=not args.yes))
    except NothingToRepair as nothing:
        raise Failed(str(nothing), Exit.USAGE) from nothing
    if wants_json(args):
        say_json(_facts(found, is_done=args.yes))
    elif found is None:
        say("the store's clock is not ahead of this machine's; there is nothing to repair")
    elif args.yes:
        say(f"the store's clock was set back by {found.ahead}; {found.records} records were moved with it")
    else:
        say(_explanation(found), "", "Nothing was changed. To do it: interlock doctor --repair-clock --yes")
    return Exit.DONE if found is None or args.yes else Exit.ERROR


def _facts(found: Repaired | None, *, is_done: bool) -> dict[str, Any]:
    if found is None:
        return {"repaired": False, "ahead_seconds": 0.0, "records": 0}
    seconds = found.ahead.total_seconds()
    return {"repaired": is_done, "ahead_seconds": seconds, "records": found.records}


def _explanation(found: Repaired) -> str:
    from datetime import UTC, datetime

    from interlock.cli.output import counted, exactly

    return _EXPLAINED.format(
        ahead=found.ahead,
        wall=exactly(datetime.now(UTC)),
        since=exactly(found.since),
        records=counted(found.records, "record"),
    )


_MARKS = {"ok": ("✓", "green"), "note": ("!", "yellow"), "wrong": ("✗", "red")}


def declare_doctor() -> Parser:
    """The options of `interlock doctor`."""
    parser = Parser(
        "interlock doctor",
        description="Look for trouble: an unreachable store, no policy, requests that nobody can decide,\n"
        "jobs that nobody takes. Exit code 1 if something is wrong.",
        examples=(
            "interlock doctor",
            "interlock doctor --url http://127.0.0.1:8700 --json",
            "interlock doctor --after-restore",
            "interlock doctor --repair-clock --yes",
        ),
    )
    upkeep = parser.add_mutually_exclusive_group()
    upkeep.add_argument(
        "--after-restore",
        action="store_true",
        help="the store was put back to an older state: make every fence from now on greater than all before",
    )
    upkeep.add_argument(
        "--repair-clock",
        action="store_true",
        help="a SQLite store's clock is ahead of this machine's: say what setting it back would do; --yes does it",
    )
    parser.add_argument("--yes", action="store_true", help="do what --repair-clock says")
    return finished(parser, run_doctor)


def run_doctor(args: Namespace) -> int:
    """Examine a deployment, and print what was found."""
    if args.after_restore or args.repair_clock:
        return run_upkeep(args)
    findings, ended = _findings(args)
    wrong = [finding for finding in findings if finding.level == "wrong"]
    if wants_json(args):
        from msgspec import to_builtins

        from interlock.cli.output import say_json

        say_json({"wrong": len(wrong), "findings": to_builtins(findings)})
    else:
        _say(findings)
    return ended


def _findings(args: Namespace) -> tuple[list[Finding], Exit]:
    """What was found, and how the command ends: 6 if nothing could be examined."""
    from interlock.cli.connection import connected
    from interlock.cli.examination import Finding, examine

    try:
        with connected(args) as client:
            findings = list(examine(client))
    except Failed as failed:
        if failed.exit is Exit.USAGE:
            raise
        return [Finding(level="wrong", about="service", text=failed.detail)], failed.exit
    is_wrong = any(finding.level == "wrong" for finding in findings)
    return findings, Exit.ERROR if is_wrong else Exit.DONE


def _say(findings: list[Finding]) -> None:
    from interlock.cli.output import exactly, painted, say, when

    width = max(len(finding.about) for finding in findings)
    for finding in findings:
        mark, style = _MARKS[finding.level]
        since = f" (since {exactly(finding.since)}, {when(finding.since)})" if finding.since else ""
        say(f"{painted(mark, style)} {finding.about:<{width}}  {finding.text}{since}")
        if finding.next_step:
            say(f"  {'':<{width}}  {painted('→', 'dim')} {finding.next_step}")
    wrong = sum(finding.level == "wrong" for finding in findings)
    say("", painted(f"{wrong} wrong", "red") if wrong else painted("nothing is wrong", "green"))

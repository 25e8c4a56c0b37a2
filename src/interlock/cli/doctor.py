"""`interlock doctor`: look for trouble; each finding says since when, and what to do about it.

With `--after-restore` or `--repair-clock` it puts right what only an operator at the store can (doctor_upkeep.py).
"""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from interlock.cli.exits import Exit, Failed
from interlock.cli.options import Parser, as_json, connecting, wants_json

if TYPE_CHECKING:
    from interlock.cli.examining import Finding

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
    as_json(parser)
    connecting(parser)
    parser.set_defaults(run=run_doctor)
    return parser


def run_doctor(args: Namespace) -> int:
    """Examine a deployment, and print what was found."""
    if args.after_restore or args.repair_clock:
        from interlock.cli.doctor_upkeep import run_upkeep

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
    from interlock.cli.examining import Finding, examine

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
    from interlock.cli.output import painted, say
    from interlock.cli.wording import exactly, when

    width = max(len(finding.about) for finding in findings)
    for finding in findings:
        mark, style = _MARKS[finding.level]
        since = f" (since {exactly(finding.since)}, {when(finding.since)})" if finding.since else ""
        say(f"{painted(mark, style)} {finding.about:<{width}}  {finding.text}{since}")
        if finding.next_step:
            say(f"  {'':<{width}}  {painted('→', 'dim')} {finding.next_step}")
    wrong = sum(finding.level == "wrong" for finding in findings)
    say("", painted(f"{wrong} wrong", "red") if wrong else painted("nothing is wrong", "green"))

"""`interlock doctor --after-restore` and `--repair-clock`: on the store itself, with or without a running server."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from interlock.cli.exits import Exit, Failed
from interlock.cli.options import given, wants_json

if TYPE_CHECKING:
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
    from interlock.cli.output import say, say_json
    from interlock.cli.store_work import on_store
    from interlock.runtime.upkeep import raise_fences

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
    from interlock.cli.output import say, say_json
    from interlock.cli.store_work import on_store
    from interlock.runtime.upkeep import NothingToRepair, repair_clock

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

    from interlock.cli.wording import counted, exactly

    return _EXPLAINED.format(
        ahead=found.ahead,
        wall=exactly(datetime.now(UTC)),
        since=exactly(found.since),
        records=counted(found.records, "record"),
    )

"""Every command checks its caller by itself, in the decision, whatever the routes before it have checked."""

from __future__ import annotations

import enum
import importlib
import pkgutil
import types
import typing
from typing import Any

import msgspec
import pytest

import interlock
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import Command
from interlock.rooms.identity.model import Caller
from interlock.store.catalogue import ROOMS
from tests.harness.in_process_api import ASK, open_api

# The ticket is known to its caller alone, so it is enough to give up the place.
BY_TICKET = {"LeaveLine", "LeaveLeaseLine"}
# These find first what they are about, and need more than a name for it.
FOUND_FIRST = {"AddSigner", "ClaimJob", "ResolveConflict", "TouchTargets"}
# Bases of others, which decide nothing.
UNDECIDED = {"HolderCommand", "OwnLease"}
# Any person may do this for themselves (test_sessions.py).
OF_ANY_PERSON = {"MakeSignInLink"}
# It asks about the caller's own session, and here there is none.
OF_A_SESSION = {"SeeSession"}
# Its owner may, with any role; so here it is not found.
OF_ITS_OWNER = {
    "CheckLease", "EndRun", "EndSession", "HandOffLease", "ReleaseLease", "RenewLease", "RenewRun", "ResumeLease",
    "SaveCheckpoint", "SuspendLease",
}  # fmt: skip


def commands() -> dict[str, Any]:
    """Every command that says who sent it, by name."""
    rooms = {*ROOMS, "permits"}
    for room in rooms:
        for module in pkgutil.iter_modules([f"{interlock.__path__[0]}/rooms/{room}"]):
            importlib.import_module(f"interlock.rooms.{room}.{module.name}")
    pending: list[Any] = list(Command.__subclasses__())
    found: dict[str, Any] = {}
    while pending:
        command = pending.pop()
        pending.extend(command.__subclasses__())
        # Others' commands, such as a test's own, are loaded beside them.
        is_ours = command.__module__.startswith(tuple(f"interlock.rooms.{room}." for room in rooms))
        if is_ours and any(field.name == "caller" for field in msgspec.structs.fields(command)):
            found[command.__name__] = command
    left_out = BY_TICKET | FOUND_FIRST | UNDECIDED
    assert left_out | OF_ITS_OWNER <= found.keys()
    return {name: found[name] for name in sorted(found.keys() - left_out) if not name.startswith("_")}


def anything(kind: Any) -> Any:
    """Some value of a field's type."""
    arms = typing.get_args(kind)
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return None if type(None) in arms else anything(arms[0])
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return next(iter(kind))
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return filled(kind)
    plain = {str: "x", int: 1, bool: False, msgspec.Raw: msgspec.Raw(b"{}"), Any: None}
    return () if typing.get_origin(kind) is tuple else plain[kind]


def filled(struct: Any, **known: Any) -> Any:
    """A struct with something in every field that must be given."""
    hints = typing.get_type_hints(struct)
    needed = [field.name for field in msgspec.structs.fields(struct) if field.required]
    return struct(**{name: known[name] if name in known else anything(hints[name]) for name in needed})


async def refusal_of(run: Any, command: Any) -> str:
    try:
        return repr(await run(command))
    except Refusal as refusal:
        return type(refusal).__name__


@pytest.mark.parametrize("who", ["nobody-knows-me", "may-do-nothing"])
async def test_every_command_refuses_whoever_may_not_send_it(who: str) -> None:
    caller = Caller(tenant="default", principal=who)
    async with open_api() as api:
        await api.policy(ASK)
        await api.person("may-do-nothing", "")
        job, run = await api.submit(await api.agent()), api.service.kernel.run
        answers = {
            name: await refusal_of(run, filled(command, caller=caller, job_id=job, submitter="bot"))
            for name, command in commands().items()
        }
    if who == "nobody-knows-me":
        assert answers == dict.fromkeys(answers, "Unauthenticated")
    else:
        expected = dict.fromkeys(answers, "Forbidden") | dict.fromkeys(OF_ITS_OWNER, "NotFound")
        expected |= dict.fromkeys(OF_A_SESSION, "SessionOver")
        for name in OF_ANY_PERSON:
            expected[name] = answers[name]
        assert answers == expected

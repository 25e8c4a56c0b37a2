"""Running a command once under the record of its effect."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from interlock.cli.execution.gates import Begun, Gate, Needed, action_id_of
from interlock.cli.execution.prepared import Effective
from interlock.cli.execution.process import Signals, Stopped

# The record outlives the command, so that a command which ends in time never leaves its outcome unknown.
_SETTLING_SECONDS = 120


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How an execution ended; `replayed` if it had run before and did not now.

    `unrecorded` is why the effect's record does not say so, and `fence` what it could still be recorded under;
    `unfinished` is why its job alone does not. `unheard` is why what it said could not all be passed on.
    """

    execution_id: str
    exit_code: int
    replayed: bool
    result: dict[str, Any]
    fence: int = 0
    unrecorded: str | None = None
    unfinished: str | None = None
    unheard: str | None = None


def begin(
    gate: Gate,
    command: Effective,
    execution_id: str,
    *,
    job_id: str | None = None,
    grant: Needed | None = None,
) -> Begun:
    """Take the right to run it, or learn how it ended before. Raises `NotGranted` or `MaybeBegun`."""
    return gate.begin(
        action_id_of(execution_id),
        command.document()["command_hash"],
        ttl_seconds=command.timeout_seconds + _SETTLING_SECONDS,
        job_id=job_id,
        grant=grant,
    )


def run_begun(gate: Gate, command: Effective, execution_id: str, begun: Begun, signals: Signals) -> Ended:
    """Run what was begun and record how it ended. Raises `NotStarted` after recording that nothing happened.

    Once the command has run, no trouble with its record hides how it ended: who saw a failure would run it again.
    """
    from interlock.cli.execution.process import NotStarted, run

    action_id = action_id_of(execution_id)
    try:
        ran = run(command, signals)
    except NotStarted as error:
        with signals.stopping():
            gate.fail(action_id, begun.fence, {"error": str(error)})
        raise
    result: dict[str, Any] = msgspec.to_builtins(ran)
    ended = Ended(
        execution_id=execution_id,
        exit_code=ran.exit_code,
        replayed=False,
        unheard=result.pop("unheard"),
        result=result,
        fence=begun.fence,
    )
    try:
        with signals.stopping():
            gate.commit(action_id, begun.fence, result)
    except (Exception, Stopped) as trouble:  # noqa: BLE001 - whatever it is, the command has run
        return msgspec.structs.replace(ended, unrecorded=str(trouble) or type(trouble).__name__)
    return ended


def replayed(execution_id: str, result: Any) -> Ended:
    """How it ended when it ran, from its record. A result that somebody else wrote may lack an exit code."""
    known = cast("dict[str, Any]", result) if isinstance(result, dict) else {}
    code = known.get("exit_code")
    return Ended(
        execution_id=execution_id, exit_code=code if isinstance(code, int) else 0, replayed=True, result=known
    )

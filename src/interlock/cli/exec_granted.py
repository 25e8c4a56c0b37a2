"""Runs a command under a grant: claims one use and records the effect in one decision, then runs the command."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from interlock.cli.exec import WHAT_DIFFERS, Prepared, begun_or_not, embedded_folder, exit_code_of
from interlock.cli.execution.gates import (
    ClientGate,
    Ended,
    LocalGate,
    MaybeBegun,
    Needed,
    NotGranted,
    begin,
    replayed,
    run_begun,
)
from interlock.cli.execution.process import NotStarted, hearing
from interlock.cli.exits import Exit, Failed
from interlock.cli.options import acquire_seconds, given, makes_store, wants_json
from interlock.service.local_kernel import LocalKernel

if TYPE_CHECKING:
    from interlock.cli.execution.gates import Begun, Gate


def run_granted(args: Namespace, prepared: Prepared) -> int | None:
    """The command's exit code if a grant was claimed; None if an approval has to be asked for instead."""
    from interlock.kernel.ids import new_id

    with errors_explained(args), opened_gate(args) as gate:
        ended = claim_and_run(gate, args, prepared, new_id("exec"))
    return None if ended is None else exit_code_of(ended, args)


@contextmanager
def errors_explained(args: Namespace) -> Generator[None]:
    """Turn an unexpected error into how the command ends. The module that explains errors is loaded only then."""
    try:
        yield
    except (Failed, KeyboardInterrupt, BrokenPipeError):
        raise
    except Exception:
        from interlock.cli.connection import translated

        with translated(args):
            raise


@contextmanager
def opened_kernel(args: Namespace) -> Generator[LocalKernel]:
    """The kernel on the embedded store, closed at the end."""
    kernel = LocalKernel(
        given(args, "store"), acquire_seconds=acquire_seconds(args.patience), makes_store=makes_store(args)
    )
    try:
        yield kernel
    finally:
        kernel.close()


def claim_and_run(gate: Gate, args: Namespace, prepared: Prepared, execution_id: str) -> Ended | None:
    """Claim and begin in one decision, then run. None if no grant fits and an approval may be asked for."""

    with hearing() as signals:
        with signals.stopping():
            begun = _begin(gate, args, prepared, execution_id)
        if begun is None:
            return None
        if begun.replayed:
            return replayed(execution_id, begun.result)
        try:
            return run_begun(gate, prepared.command, execution_id, begun, signals)
        except NotStarted as error:
            used = f"grant {begun.grant_id} was used"
            raise Failed(f"{error}; {used}. {_again(execution_id, prepared)}") from None


def _begin(gate: Gate, args: Namespace, prepared: Prepared, execution_id: str) -> Begun | None:
    needed = _needed(args, prepared, execution_id)
    try:
        return begin(gate, prepared.command, execution_id, grant=needed)
    except NotGranted as missing:
        if needed.claimed_before:
            raise _not_resumed(execution_id, prepared, str(missing)) from None
        if needed.grant_id or needed.signed:
            raise _refused(prepared, str(missing)) from None
        if not wants_json(args):
            _tell_asking(prepared, str(missing))
        return None
    except MaybeBegun as lost:
        raise begun_or_not(execution_id, lost, prepared.retyped) from lost


def _needed(args: Namespace, prepared: Prepared, execution_id: str) -> Needed:
    return Needed(
        task=prepared.task_name or "",
        args=prepared.command.document(),
        execution_id=execution_id,
        grant_id=args.grant,
        signed=prepared.approval is not None and prepared.approval.signed,
        groups=prepared.approval.groups if prepared.approval else (),
        claimed_before=args.resume is not None,
    )


@contextmanager
def opened_gate(args: Namespace) -> Generator[Gate]:
    """The store itself if it is embedded and no key is given; else a client."""
    if embedded_folder(args) is not None:
        with opened_kernel(args) as kernel:
            yield LocalGate(kernel)
        return
    from interlock.cli.connection import connected

    with connected(args) as client:
        yield ClientGate(client)


def _refused(prepared: Prepared, reason: str) -> Failed:
    signed = " --sign-with KEYFILE" if prepared.approval and prepared.approval.signed else ""
    advice = f"One that fits is issued with `interlock grant {prepared.task_name}{signed}`"
    problem = {"task": prepared.task_name, "reason": reason}
    return Failed(
        f"no grant was claimed, so nothing ran: {reason}. {advice}",
        Exit.DENIED,
        name="not_claimed",
        problem=problem,
    )


def _not_resumed(execution_id: str, prepared: Prepared, reason: str) -> Failed:
    """How it ends if an execution has no claim for this: there is none, or it is for something else."""
    from interlock.rooms.grants.claims import CLAIMED_NOTHING, FOR_OTHER_ARGUMENTS

    task = prepared.task_name
    anew = "run it without --resume, which takes another grant or asks for an approval"
    if reason.endswith(CLAIMED_NOTHING):
        missing = f"no grant for {task} was claimed under it"
        detail = f"there is no execution or job {execution_id}: {missing}, so nothing ran"
        advice = f"Check the id, or {anew}"
    elif reason.endswith(FOR_OTHER_ARGUMENTS):
        detail = f"{execution_id} has claimed a grant for another command of {task}, so nothing ran: {WHAT_DIFFERS}"
        advice = f"Say exactly the same words in the same folder and environment, or {anew}"
    else:
        detail, advice = f"{execution_id} was not resumed, so nothing ran: {reason}", anew.capitalize()
    problem = {"execution_id": execution_id, "task": task, "reason": reason}
    return Failed(f"{detail}. {advice}", Exit.DENIED, name="not_claimed", problem=problem)


def _tell_asking(prepared: Prepared, reason: str) -> None:
    from interlock.cli.output import warn

    by_people = prepared.approval is not None and prepared.approval.required
    warn(
        f"no grant was claimed ({reason}); asking {'for an approval' if by_people else 'the policy'} instead"
    )


def _again(execution_id: str, prepared: Prepared) -> str:
    return f"Once it can start: interlock exec --resume {execution_id} {prepared.retyped}"

"""How `interlock exec` ends after the command has run: with its exit code, even if recording it failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.cli.exits import Exit, Failed
from interlock.cli.options import wants_json

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from interlock.cli.execution.gates import MaybeBegun
    from interlock.cli.execution.once import Ended

# Of an execution under a grant only a hash of its command is kept, so nobody can say which of them it is.
WHAT_DIFFERS = (
    "its words, folder, environment, input, program, timeout or task file differ (only a hash is kept)"
)


def exit_code_of(ended: Ended, args: Namespace) -> int:
    """The command's own exit code. Says on stderr if it did not run now, or what could not be passed on or recorded.

    With `--json` that is one document; stdout is the command's in any case.
    """
    remarks = list(_remarks(ended))
    if remarks and wants_json(args):
        _warn_json(ended, remarks)
    else:
        for remark in remarks:
            _warn(remark)
    return ended.exit_code


def begun_or_not(execution_id: str, lost: MaybeBegun, words: str = "") -> Failed:
    """How we end if nobody said whether the command may run: it did not, and its record knows how to go on."""
    resume = f"interlock exec --resume {execution_id} {words}".rstrip()
    return Failed(
        f"nothing ran, but {execution_id} may have been begun ({lost}); go on as its record says with `{resume}`",
        Exit.UNAVAILABLE,
        name="outcome_unknown",
        problem={"execution_id": execution_id, "resume": resume},
    )


def _remarks(ended: Ended) -> Iterator[str]:
    if ended.replayed:
        yield f"{ended.execution_id} ran before and ended with {ended.exit_code}; it did not run again"
    elif ended.result.get("timed_out"):
        yield f"{ended.execution_id} took longer than its timeout and was ended"
    if ended.unheard is not None:
        yield f"not all that the command said could be written: {ended.unheard}; it ran to its end"
    if ended.unrecorded is not None:
        yield f"{ended.execution_id} {_unrecorded(ended)}"
    elif ended.unfinished is not None:
        ran = f"{ended.execution_id} ran and ended with {ended.exit_code}"
        yield f"{ran}; its job does not say so: {ended.unfinished}"


def _unrecorded(ended: Ended) -> str:
    result = f'{{"exit_code": {ended.exit_code}}}'
    again = f"interlock effect commit exec:{ended.execution_id} --fence {ended.fence} --result '{result}'"
    return (
        f"ran and ended with {ended.exit_code}, but that could not be recorded: {ended.unrecorded}. "
        f"Do not run it again; record it with `{again}`"
    )


def _warn(text: str) -> None:
    from interlock.cli.output import warn

    warn(text)


def _warn_json(ended: Ended, remarks: list[str]) -> None:
    from interlock.cli.output import warn_json

    told = {"execution_id": ended.execution_id, "exit_code": ended.exit_code, "replayed": ended.replayed}
    warn_json({**told, "result": ended.result, "remarks": remarks})

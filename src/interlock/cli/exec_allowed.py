"""Running a command that no task declares on the embedded store: at once if the policy allows it, else by asking."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from interlock.cli.exec_ending import begun_or_not, exit_code_of
from interlock.cli.exits import Failed
from interlock.cli.options import acquire_seconds, given, makes_store
from interlock.execution.gate import MaybeBegun
from interlock.execution.running import NotStarted

if TYPE_CHECKING:
    from interlock.cli.exec_preparing import Prepared
    from interlock.execution.once import Ended


def run_allowed(args: Namespace, prepared: Prepared) -> int:
    """The command's exit code. What has to wait for people, or was denied, goes on through the client."""
    try:
        ended, job_id = _attempted(args, prepared)
    except (Failed, KeyboardInterrupt, BrokenPipeError):
        raise
    except Exception:
        # Only now: what explains trouble costs time to load.
        from interlock.cli.connection import translated

        with translated(args):
            raise
    if ended is not None:
        return exit_code_of(ended, args)
    from interlock.cli.exec_asking import run_asking

    return run_asking(args, prepared, job_id)


def _attempted(args: Namespace, prepared: Prepared) -> tuple[Ended | None, str | None]:
    """How the command ended, if it ran; and the id of its job, if it was submitted."""
    from interlock.execution.allowed import run_here, submit_here
    from interlock.runtime.local_kernel import LocalKernel

    kernel = LocalKernel(
        given(args, "store"), acquire_seconds=acquire_seconds(args.patience), makes_store=makes_store(args)
    )
    try:
        job = submit_here(kernel, prepared.command)
        if job is None:
            return None, None
        try:
            return run_here(kernel, job, prepared.command), job.id
        except NotStarted as error:
            raise Failed(
                f"{error}; {job.id} was used up without running. Ask again once it can start"
            ) from None
        except MaybeBegun as lost:
            raise begun_or_not(job.id, lost) from lost
    finally:
        kernel.close()

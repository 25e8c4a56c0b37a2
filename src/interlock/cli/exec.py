"""`interlock exec`: run a command once, under a claimed grant or an approval, and return its exit code."""

from __future__ import annotations

import gc
import os
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.cli.execution.prepared import (
    Effective,
    is_silent_pipe,
    prepare_command,
    prepare_task,
    read_stdin,
)
from interlock.cli.execution.tasks import (
    NAME,
    TIMEOUT_SECONDS_DEFAULT,
    TIMEOUT_SECONDS_MAX,
    BadTask,
    TaskApproval,
    find_task_file,
    read_task_file,
)
from interlock.cli.exits import Exit, Failed
from interlock.cli.options import Parser, finished, given, wants_json
from interlock.cli.values import seconds
from interlock.kernel.codec.canonical import NotCanonical
from interlock.service.settings import embedded_store, store_named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlock.cli.execution.gates import Ended, MaybeBegun


class Prepared(NamedTuple):
    """A command ready to be asked about. `approval` is None if no task declares it; then it may have no name.

    `options` are those that decide what it comes to.
    """

    command: Effective
    task_name: str | None
    approval: TaskApproval | None
    options: tuple[str, ...]

    @property
    def retyped(self) -> str:
        """The options and words to type again for the same execution."""
        import shlex

        name = () if self.task_name is None else (self.task_name,)
        words = self.command.argv if self.approval is None else self.command.args
        dashes = ("--",) if self.approval is None or any(word.startswith("-") for word in words) else ()
        return shlex.join([*self.options, *name, *dashes, *words])


def effective_command(args: Namespace) -> Prepared:
    """The command that these words mean here and now."""
    with _refused():
        return _prepared(args, read_stdin(_stdin_descriptor(), wait=args.stdin))


def prepared_again(args: Namespace, before: Prepared) -> Prepared:
    """What the same words mean by now, with the stdin that was read before: there is no second one."""
    with _refused():
        return _prepared(args, before.command.stdin)


def _prepared(args: Namespace, stdin: bytes | None) -> Prepared:
    prepared = _task(args, stdin) if args.is_task else _undeclared(args, stdin)
    prepared.command.document()
    return prepared


@contextmanager
def _refused() -> Generator[None]:
    """Turn what keeps a command from being prepared into how we end."""
    try:
        yield
    except BadTask as error:
        raise Failed(str(error), Exit.USAGE, name="bad_task") from None
    except NotCanonical:
        raise Failed(
            "a word of the command, or its folder, is not text in UTF-8, so it cannot be approved", Exit.USAGE
        ) from None


def _task(args: Namespace, stdin: bytes | None) -> Prepared:
    path = Path(args.tasks) if args.tasks else find_task_file(_here())
    name, *rest = args.words
    tasks = read_task_file(path) if path else {}
    if args.command and name not in tasks:
        return _undeclared(args, stdin, name)
    if path is None:
        raise BadTask(
            f"there is no {NAME} here or above; declare the task {name!r}, or write its command after --"
        )
    if name not in tasks:
        known = f"it declares {', '.join(sorted(tasks))}" if tasks else "it declares none"
        raise BadTask(
            f"{path} has no task {name!r} ({known}); write `interlock exec -- {name} …` to run a command"
        )
    task = tasks[name]
    if args.env or args.timeout is not None:
        raise BadTask(f"{path} says which env and timeout {name!r} has; leave --env and --timeout out")
    folder = path.resolve().parent
    command = prepare_task(name, task, rest, folder=folder, environ=os.environ, stdin=stdin)
    return Prepared(command, name, task.approval, _task_file(args))


def _undeclared(args: Namespace, stdin: bytes | None, name: str | None = None) -> Prepared:
    command = prepare_command(
        args.words if name is None else args.command,
        task=name,
        folder=_here(),
        environ=os.environ,
        env=args.env,
        stdin=stdin,
        timeout_seconds=_timeout(args.timeout),
    )
    env = tuple(word for variable in args.env for word in ("--env", variable))
    timeout = () if args.timeout is None else ("--timeout", f"{args.timeout}s")
    return Prepared(command, name, None, (*_task_file(args), *env, *timeout))


def _task_file(args: Namespace) -> tuple[str, ...]:
    return ("--tasks", args.tasks) if args.tasks else ()


def _here() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise BadTask("this folder was removed; change to one that exists") from None


def _timeout(seconds: int | None) -> int:
    if seconds is None:
        return TIMEOUT_SECONDS_DEFAULT
    if not 1 <= seconds <= TIMEOUT_SECONDS_MAX:
        raise BadTask(f"--timeout must be between 1s and {TIMEOUT_SECONDS_MAX}s")
    return seconds


def tell_silent_stdin(args: Namespace, prepared: Prepared) -> None:
    """Say that a pipe was left unread: who writes to it later than we look must not think that it was heard."""
    if prepared.command.stdin is None and not wants_json(args) and is_silent_pipe(_stdin_descriptor()):
        from interlock.cli.output import warn

        warn("nothing has come through stdin yet, so the command gets none; --stdin waits for it")


def embedded_folder(args: Namespace) -> Path | None:
    """The folder of the embedded store's file, if it is opened here as its own user; else None."""
    environ = os.environ
    has_server = given(args, "url") or (environ.get("INTERLOCK_URL") and not given(args, "store"))
    store = store_named(given(args, "store")) or embedded_store()
    has_key = given(args, "api_key") or environ.get("INTERLOCK_KEY")
    if has_server or has_key or not store.startswith("sqlite:///"):
        return None
    return Path(store.removeprefix("sqlite:///")).parent


def _stdin_descriptor() -> int:
    try:
        return sys.stdin.fileno()
    except (AttributeError, OSError, ValueError):
        return -1


_MORE = """\
exit codes:
  If the command ran: its own; 124 if its time was up; 128+N after signal N.
  If it did not run: 1 error, 2 wrong usage, 3 denied or drifted,
  4 still waiting, 5 busy or running elsewhere, 6 out of reach or unknown.

The command is not interactive: its stdin is what was piped or redirected in, or
nothing. Of the environment it gets PATH, HOME and a few more, and what the task's
`env` (or --env) lists. Options of `interlock exec` may stand before or after TASK,
but not after `--`. stdout is the command's; Interlock prints on stderr.
"""


class _ExecParser(Parser):
    """Keeps the words of the command apart from our options, in their order."""

    def parse_args(  # pyright: ignore[reportIncompatibleMethodOverride] - as main calls it
        self, args: Sequence[str] | None = None, namespace: Namespace | None = None
    ) -> Namespace:
        ours, words, tail = self._split(list(args or ()))
        found = super().parse_args(ours, namespace or Namespace())
        found.is_task = bool(words)
        found.words = [*words, *tail]
        found.command = tail if len(words) == 1 else []
        return found

    def _split(self, given: list[str]) -> tuple[list[str], list[str], list[str]]:
        """Our options with their values, the command's words, and what follows `--`."""
        head, dashes, tail = _partition(given)
        ours: list[str] = []
        words: list[str] = []
        takes_value = {name: action.nargs != 0 for action in self._actions for name in action.option_strings}
        while head:
            word = head.pop(0)
            name, equals, _ = word.partition("=")
            if name not in takes_value and (words or not word.startswith("-")):
                words.append(word)
                continue
            ours.append(word)
            if takes_value.get(name) and not equals and head:
                ours.append(head.pop(0))
        return ours, words, tail if dashes else []


def declare_exec() -> Parser:
    """The options of `interlock exec`."""
    parser = _ExecParser(
        "interlock exec",
        description="Run a task of interlock.yaml, or any command after `--`, only under a grant or an approval.\n"
        "TASK names what a grant permits; one that interlock.yaml does not declare takes its command after `--`.",
        examples=(
            "interlock exec deploy production",
            "interlock exec cleanup -- rm -r build",
            "interlock exec --wait 10m -- terraform apply plan.out",
            "interlock exec --resume job_…",
            "interlock exec --show deploy production",
        ),
        more=_MORE,
    )
    parser.usage = (
        "interlock exec [options] TASK [ARGS…]\n       interlock exec [options] [TASK] -- COMMAND [ARGS…]"
    )
    parser.add_argument(
        "--wait",
        type=seconds,
        default=0,
        metavar="10m",
        help="wait this long for an approval (default: not at all)",
    )
    parser.add_argument(
        "--resume", type=_id, metavar="ID", help="go on with an execution, as its record says"
    )
    parser.add_argument("--grant", type=_id, metavar="ID", help="claim this grant and no other")
    parser.add_argument("--tasks", metavar="FILE", help="the task file (default: the nearest interlock.yaml)")
    parser.add_argument(
        "--env", type=_variable, action="append", default=[], metavar="NAME",
        help="pass this variable to a command after --",
    )  # fmt: skip
    parser.add_argument("--timeout", type=seconds, metavar="1h", help="for a command after -- (default 1h)")
    parser.add_argument("--stdin", action="store_true", help="read stdin to its end, however long that takes")
    parser.add_argument("--show", action="store_true", help="print what would run and its hash; run nothing")
    return finished(parser, run_exec)


def run_exec(args: Namespace) -> int:
    """Run one command."""
    was_enabled = gc.isenabled()
    gc.disable()  # short-lived and in a hurry: much of a start would go into looking for garbage
    try:
        return _run(args)
    finally:
        if was_enabled:
            gc.enable()


def _run(args: Namespace) -> int:

    _check_words(args)
    if args.show:
        return _show(args)
    if args.resume:
        from interlock.cli.exec_approved import resume

        return resume(args)
    prepared = effective_command(args)
    tell_silent_stdin(args, prepared)
    if prepared.task_name is not None:
        from interlock.cli.exec_granted import run_granted

        code = run_granted(args, prepared)
        if code is not None:
            return code
    elif embedded_folder(args) is not None:
        from interlock.cli.exec_allowed import run_allowed

        return run_allowed(args, prepared)
    from interlock.cli.exec_approved import run_asking

    return run_asking(args, prepared)


def _check_words(args: Namespace) -> None:
    if args.resume and not args.show:
        return
    if not args.words:
        raise Failed("say what to run: a task of interlock.yaml, or a command after --", Exit.USAGE)
    if args.grant and not args.is_task:
        raise Failed("--grant needs the TASK that it permits: interlock exec TASK -- COMMAND", Exit.USAGE)


def _id(text: str) -> str:
    """An id. One that a script left empty names nothing, and must not read as if none was asked for."""
    if not text:
        raise ArgumentTypeError("the id is empty; give one, or leave the option out")
    return text


def _variable(text: str) -> str:
    """The name of an environment variable."""
    if not (text.isascii() and text.isidentifier()):
        raise ArgumentTypeError(f"{text!r} is not a variable's name; set it before, and give its name here")
    return text


def _show(args: Namespace) -> int:

    from interlock.cli.output import say_json

    document: dict[str, Any] = effective_command(args).command.document()
    say_json(document)
    return Exit.DONE


def _partition(given: list[str]) -> tuple[list[str], bool, list[str]]:
    if "--" not in given:
        return given, False, []
    place = given.index("--")
    return given[:place], True, given[place + 1 :]


# Of an execution under a grant only a hash of its command is kept, so it cannot be said what differs.
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
    """How the command ends if the answer was lost: nothing ran, and the record says how to go on."""
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

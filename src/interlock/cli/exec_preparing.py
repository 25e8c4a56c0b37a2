"""What `interlock exec` would run, from its words, the task file and this machine."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from interlock.cli.exits import Exit, Failed
from interlock.cli.options import given, wants_json
from interlock.codec.canonical import NotCanonical
from interlock.execution.effective import Effective
from interlock.execution.preparing import is_silent_pipe, prepare_command, prepare_task, read_stdin
from interlock.execution.task_file import NAME, find_task_file, read_task_file
from interlock.execution.tasks import TIMEOUT_SECONDS_DEFAULT, TIMEOUT_SECONDS_MAX, BadTask, TaskApproval
from interlock.runtime.places import embedded_store, store_named


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

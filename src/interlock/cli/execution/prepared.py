"""Makes the effective command from a task, its arguments and this machine."""

from __future__ import annotations

import hashlib
import os
import select
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from interlock.cli.execution.tasks import TIMEOUT_SECONDS_DEFAULT, BadTask, Task, words_of
from interlock.kernel.codec.canonical import digest

HASH_DOMAIN = "command/v1"


class Effective(msgspec.Struct, frozen=True, kw_only=True):
    """A command ready to run. `env` holds the values themselves; the document does not."""

    task: str | None
    argv: tuple[str, ...]
    args: tuple[str, ...]
    program: str
    cwd: str
    env: dict[str, str]
    stdin: bytes | None
    timeout_seconds: int
    definition: dict[str, Any] | None

    def document(self) -> dict[str, Any]:
        """What is approved, with its hash."""
        facts: dict[str, Any] = {
            "task": self.task,
            "argv": list(self.argv),
            "args": list(self.args),
            "program": self.program,
            "cwd": self.cwd,
            "env": {
                name: _sha256(value.encode(errors="surrogateescape")) for name, value in self.env.items()
            },
            "stdin": None if self.stdin is None else _sha256(self.stdin),
            "timeout_seconds": self.timeout_seconds,
            "definition": self.definition,
        }
        return {**facts, "command_hash": digest(HASH_DOMAIN, facts)}


def topic_of(task: str | None, program: str) -> str:
    """What a policy calls this command: `exec.<task>`, or `exec.<program>` where no task is declared."""
    name = task if task is not None else program.rpartition("/")[2]
    parts = (
        "".join(char if char.isascii() and (char.isalnum() or char in "_-") else "_" for char in part)
        for part in name.split(".")
    )
    return ".".join(["exec", *filter(None, parts)])


def drift(approved: Mapping[str, Any], current: Mapping[str, Any]) -> list[str]:
    """What differs between what was approved and what would run, a line each; empty if nothing does."""
    lines: list[str] = []
    for name in sorted({*approved, *current} - {"command_hash"}):
        before, after = approved.get(name), current.get(name)
        if before != after:
            lines += _difference(name, before, after)
    if not lines and approved.get("command_hash") != current.get("command_hash"):
        lines += _difference("command_hash", approved.get("command_hash"), current.get("command_hash"))
    return lines


def _difference(name: str, before: Any, after: Any) -> list[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        old, new = cast("dict[str, Any]", before), cast("dict[str, Any]", after)
        changed = (key for key in sorted({*old, *new}) if old.get(key) != new.get(key))
        return [line for key in changed for line in _difference(f"{name}.{key}", old.get(key), new.get(key))]
    return [f"  {name}", f"  - approved  {_shown(before)}", f"  + would run {_shown(after)}"]


def _shown(value: Any) -> str:
    return "(absent)" if value is None else msgspec.json.encode(value).decode()


def _sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


STDIN_BYTES_MAX = 16 * 1024 * 1024
# What nearly every program needs to start; all else has to be on the task's list.
ENV_ALWAYS = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER")


def prepare_task(
    name: str,
    task: Task,
    args: Sequence[str],
    *,
    folder: Path,
    environ: Mapping[str, str],
    stdin: bytes | None,
) -> Effective:
    """What running this task with these arguments would come to. Raises `BadTask`."""
    words = words_of(name, task)
    cwd = _folder(name, folder / task.cwd)
    return Effective(
        task=name,
        argv=(*words, *args),
        args=tuple(args),
        program=_program(words[0], cwd, environ),
        cwd=str(cwd),
        env=_environment(task.env, environ),
        stdin=stdin,
        timeout_seconds=task.timeout_seconds,
        definition=task.definition(),
    )


def prepare_command(
    words: Sequence[str],
    *,
    folder: Path,
    environ: Mapping[str, str],
    env: Sequence[str],
    stdin: bytes | None,
    timeout_seconds: int = TIMEOUT_SECONDS_DEFAULT,
    task: str | None = None,
) -> Effective:
    """What running a command that no file declares, perhaps under a task's name, would come to. Raises `BadTask`."""
    return Effective(
        task=task,
        argv=tuple(words),
        args=tuple(words[1:]),
        program=_program(words[0], folder, environ),
        cwd=str(folder.resolve()),
        env=_environment(env, environ),
        stdin=stdin,
        timeout_seconds=timeout_seconds,
        definition=None,
    )


def read_stdin(descriptor: int, *, wait: bool) -> bytes | None:
    """What was piped or redirected in, to its end; None for a terminal, or for a pipe in which nothing is yet.

    With `wait`, a pipe is read whatever it takes. Raises `BadTask` if it cannot be read, or is more than may be.
    """
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return None
    if stat.S_ISCHR(mode) or not (stat.S_ISREG(mode) or wait or _has_news(descriptor)):
        return None
    try:
        return _to_its_end(descriptor) or None
    except OSError as error:
        raise BadTask(f"stdin cannot be read: {error.strerror}; leave it out with `< /dev/null`") from None


def is_silent_pipe(descriptor: int) -> bool:
    """Whether it is a pipe that is open for writing and still empty."""
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)) and not _has_news(descriptor)


def _to_its_end(descriptor: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while chunk := os.read(descriptor, 1 << 16):
        chunks.append(chunk)
        size += len(chunk)
        if size > STDIN_BYTES_MAX:
            raise BadTask(f"stdin is larger than {STDIN_BYTES_MAX} bytes; pass a file's name instead")
    return b"".join(chunks)


def _has_news(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN | select.POLLHUP)
    return bool(poll.poll(0))


def _folder(name: str, path: Path) -> Path:
    try:
        folder = path.resolve()
        is_there = folder.is_dir()
    except (OSError, RuntimeError) as error:  # a loop of symbolic links is the latter
        raise BadTask(f"task {name}: its folder cannot be reached: {error}") from None
    if not is_there:
        raise BadTask(f"task {name}: its folder {folder} does not exist")
    return folder


def _environment(allowed: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[name] for name in sorted({*ENV_ALWAYS, *allowed}) if name in environ}


def _program(word: str, cwd: Path, environ: Mapping[str, str]) -> str:
    if "/" in word:
        path = cwd / word
        found = str(path) if path.is_file() else None
        if found and not os.access(path, os.X_OK):
            raise BadTask(f"{word!r} is not executable; `chmod +x` it, or name what runs it first")
    else:
        found = shutil.which(word, path=environ.get("PATH"))
    if found is None:
        raise BadTask(f"there is no program {word!r} to run; check the command and PATH")
    return str(Path(found).absolute())

"""Structured log lines on stderr: one JSON object each, or one line of text for people.

A line about a request shows its route, never its raw path, query, headers or body: keys and payloads must not reach a
log collector. An unexpected exception is logged with its frames; in its message, every word that came with the
request is blacked out.
"""

from __future__ import annotations

import contextlib
import logging
import re
import sys
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping
from datetime import UTC, datetime
from typing import Literal, Protocol, TypeAlias

import msgspec

from interlock.kernel.codec.visible import is_visible, spelled_out

Level: TypeAlias = Literal["debug", "info", "warning", "error"]
Form: TypeAlias = Literal["json", "text"]

MESSAGE_MAX = 500
FRAMES_MAX = 30
CAUSES_MAX = 5
_LEVELS: tuple[Level, ...] = ("debug", "info", "warning", "error")
_WORD = re.compile(r"[^\s'\"`,;:()\[\]{}<>=]{4,}")
_UNICODE_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_PERCENT_ESCAPE = re.compile(r"%([0-9a-fA-F]{2})")
_WINDOW = 6
_encode = msgspec.json.Encoder(enc_hook=str).encode


class Asked(Protocol):
    """What a client sent, of which a log must repeat nothing."""

    @property
    def path(self) -> str: ...
    @property
    def query(self) -> str: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def body(self) -> bytes: ...


class RequestLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that is said about one request."""

    ts: datetime
    level: Level
    event: Literal["request"]
    request_id: str
    method: str
    route: str
    status: int
    duration_ms: float
    tenant: str | None = None
    principal: str | None = None
    code: str | None = None
    client: str | None = None


Line: TypeAlias = RequestLine | dict[str, object]


class Log:
    """Writes lines of one form, from one level up."""

    def __init__(
        self, *, form: Form = "json", level: Level = "info", write: Callable[[str], object] | None = None
    ) -> None:
        """Write whole lines with `write`; to stderr if it is left out."""
        self._spell = _as_json if form == "json" else _as_text
        self._from = _LEVELS.index(level)
        self._write = write or _write_to_stderr

    def request(
        self,
        *,
        request_id: str,
        method: str,
        route: str,
        status: int,
        duration_ms: float,
        tenant: str | None = None,
        principal: str | None = None,
        code: str | None = None,
        client: str | None = None,
    ) -> None:
        """Tell of one request that was answered."""
        level: Level = "info" if status < 500 else "error" if status == 500 else "warning"
        if not self._tells(level):
            return
        line = RequestLine(
            ts=datetime.now(UTC),
            level=level,
            event="request",
            request_id=request_id,
            method=method,
            route=route,
            status=status,
            duration_ms=duration_ms,
            tenant=tenant,
            principal=principal,
            code=code,
            client=client,
        )
        self._write(self._spell(line) + "\n")

    def fault(self, error: BaseException, *, request: Asked, request_id: str, route: str) -> None:
        """Log an unexpected exception, without repeating the content of the request."""
        exceptions = list(_described(error, _said_in(request)))
        self._emit("error", "fault", {"request_id": request_id, "route": route, "exceptions": exceptions})

    def event(self, level: Level, message: str, **fields: object) -> None:
        """Tell of anything else; `fields` must hold no secret."""
        self._emit(level, message, fields)

    def _emit(self, level: Level, event: str, fields: dict[str, object]) -> None:
        if self._tells(level):
            line = {"ts": datetime.now(UTC), "level": level, "event": event, **fields}
            self._write(self._spell(line) + "\n")

    def _tells(self, level: Level) -> bool:
        return _LEVELS.index(level) >= self._from


@contextlib.contextmanager
def taking_standard_logs(log: Log, level: Level) -> Generator[None]:
    """Inside the block, what loops and libraries log goes through `log` too: ours from `level` on, others' warnings.

    What a library tells besides is kept out: an HTTP client logs every address, and those of webhooks hold secrets.
    """
    root, ours, handler = logging.getLogger(), logging.getLogger("interlock"), StandardLogs(log)
    level_before = ours.level
    root.addHandler(handler)
    ours.setLevel(level.upper())
    try:
        yield
    finally:
        ours.setLevel(level_before)
        root.removeHandler(handler)


class StandardLogs(logging.Handler):
    """Sends the records of the standard library's loggers (the server's, asyncio's) through a `Log`."""

    def __init__(self, log: Log) -> None:
        """Pass every record on to `log`, which has a level of its own."""
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record, with the frames of its exception if it has one."""
        level: Level = "error" if record.levelno >= logging.ERROR else "warning"
        if record.levelno < logging.WARNING:
            level = "info" if record.levelno >= logging.INFO else "debug"
        fields: dict[str, object] = {"logger": record.name}
        if record.exc_info and record.exc_info[1] is not None:
            fields["exceptions"] = list(_described(record.exc_info[1], ""))
        self._log.event(level, record.getMessage(), **fields)


def _write_to_stderr(line: str) -> None:
    # A full disk, or a collector that died, costs lines and not answers.
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(line)
        sys.stderr.flush()


def _as_json(line: Line) -> str:
    return spelled_out(_encode(line).decode())


def _as_text(line: Line) -> str:
    rest: dict[str, object] = msgspec.to_builtins(line, enc_hook=str)
    clock = str(rest.pop("ts"))[11:19]
    level, event = str(rest.pop("level")), str(rest.pop("event"))
    if event == "request":
        event = "{method} {route} {status} {duration_ms}ms".format_map(rest)
        rest = {
            name: rest[name]
            for name in ("code", "tenant", "principal", "client", "request_id")
            if name in rest
        }
    tail = " ".join(f"{name}={_flat(value)}" for name, value in rest.items())
    return f"{clock} {level:<7} {_flat(event)} {tail}".rstrip()


def _flat(value: object) -> str:
    text = value if isinstance(value, str) else _encode(value).decode()
    return text if is_visible(text) else spelled_out(repr(text))


def _described(error: BaseException, said: str) -> Iterator[dict[str, object]]:
    """Describe an exception and its causes, the outermost first."""
    cause: BaseException | None = error
    for _ in range(CAUSES_MAX):
        if cause is None:
            return
        frames = traceback.extract_tb(cause.__traceback__)[-FRAMES_MAX:]
        yield {
            "type": f"{type(cause).__module__}.{type(cause).__qualname__}",
            "message": _blacked_out(str(cause)[:MESSAGE_MAX], said),
            "frames": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
        }
        cause = cause.__cause__ or cause.__context__


def _said_in(request: Asked) -> str:
    """Join all that the client sent, also as it reads once decoded."""
    raw = "\n".join(
        (request.path, request.query, *request.headers.values(), request.body.decode(errors="replace"))
    )
    plain = _UNICODE_ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), raw)
    return raw + "\n" + _PERCENT_ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), plain)


def _blacked_out(message: str, said: str) -> str:
    """Replace each word of `message` that shares a stretch of letters with what the client said."""

    def judge(word: re.Match[str]) -> str:
        text = word[0]
        width = min(len(text), _WINDOW)
        windows = (text[start : start + width] for start in range(len(text) - width + 1))
        return "…" if any(window in said for window in windows) else text

    return _WORD.sub(judge, message)

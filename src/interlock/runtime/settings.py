"""Every setting of a server, with its default, its meaning and its environment variable."""

from __future__ import annotations

import os
from typing import Annotated

import msgspec

from interlock.kernel.kernel import KernelLimits

EMBEDDED_STORE = "sqlite:///.interlock/interlock.db"
TENANT_DEFAULT = "default"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a server runs. `INTERLOCK_<NAME>` in the environment sets each one."""

    host: Annotated[str, msgspec.Meta(description="address to listen on")] = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(description="port to listen on; 0 picks a free one")] = 8700
    store: Annotated[str, msgspec.Meta(description="sqlite:///path, postgresql://… or memory:")] = (
        EMBEDDED_STORE
    )
    policy: Annotated[str, msgspec.Meta(description="policy file put in force for the default tenant")] = ""
    lock_busy_status: Annotated[int, msgspec.Meta(description="status of lock_busy: 409 or 423")] = 409
    acquire_seconds: Annotated[float, msgspec.Meta(description="how long a call may wait for a record")] = 2.0
    batch_max: Annotated[int, msgspec.Meta(description="most commands that one commit carries")] = 256
    queue_max: Annotated[int, msgspec.Meta(description="most commands waiting before 503 overloaded")] = 4096
    lanes: Annotated[int, msgspec.Meta(description="batches under way at once on PostgreSQL")] = 2
    body_bytes_max: Annotated[int, msgspec.Meta(description="largest request body")] = 1024 * 1024
    idempotency_days: Annotated[int, msgspec.Meta(description="how long idempotent answers are kept")] = 30
    sweep_seconds: Annotated[float, msgspec.Meta(description="pause between sweeps")] = 1.0
    drain_seconds: Annotated[float, msgspec.Meta(description="how long a stopping server finishes work")] = (
        20.0
    )
    log_format: Annotated[str, msgspec.Meta(description="json or text")] = "json"
    log_level: Annotated[str, msgspec.Meta(description="debug, info, warning or error")] = "info"

    def kernel_limits(self) -> KernelLimits:
        return KernelLimits(
            batch_max=self.batch_max, queue_max=self.queue_max, acquire_seconds=self.acquire_seconds
        )


class BadSetting(Exception):
    """A setting cannot be used; the message names it and says what is allowed."""


def settings_from(environ: dict[str, str] | None = None, **given: object) -> Settings:
    """Settings from what was given, then from the environment, then the defaults."""
    environ = dict(os.environ) if environ is None else environ
    values: dict[str, object] = {}
    for name in Settings.__struct_fields__:
        variable = f"INTERLOCK_{name.upper()}"
        if given.get(name) is not None:
            values[name] = given[name]
        elif environ.get(variable):
            values[name] = environ[variable]
    try:
        settings = msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise BadSetting(f"{error}; see `interlock serve --help`") from error
    _check(settings)
    return settings


def _check(settings: Settings) -> None:
    rules = (
        (settings.lock_busy_status in (409, 423), "lock_busy_status must be 409 or 423"),
        (settings.log_format in ("json", "text"), "log_format must be json or text"),
        (
            settings.log_level in ("debug", "info", "warning", "error"),
            "log_level must be debug, info, warning or error",
        ),
        (settings.acquire_seconds > 0, "acquire_seconds must be more than 0"),
        (1 <= settings.batch_max <= 2000, "batch_max must be between 1 and 2000"),
        (settings.queue_max >= 1, "queue_max must be at least 1"),
        (1 <= settings.lanes <= 16, "lanes must be between 1 and 16"),
        (0 <= settings.port <= 65535, "port must be between 0 and 65535"),
        (settings.idempotency_days >= 1, "idempotency_days must be at least 1"),
    )
    for holds, message in rules:
        if not holds:
            raise BadSetting(f"{message}; see `interlock serve --help`")

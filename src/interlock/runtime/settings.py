"""Every setting of a server, with its default, its meaning and its environment variable."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import msgspec

from interlock.kernel.kernel import KernelLimits

if TYPE_CHECKING:
    from interlock.jobs.leasing import Backoff

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
    stalled_seconds: Annotated[
        float, msgspec.Meta(description="how long a client may leave its answer unread")
    ] = 30.0
    retry_base_seconds: Annotated[
        float, msgspec.Meta(description="rest after a job's first failed attempt")
    ] = 1.0
    retry_most_seconds: Annotated[float, msgspec.Meta(description="longest rest between two attempts")] = (
        300.0
    )
    secret: Annotated[
        str, msgspec.Meta(description="seals what signs permits and webhooks; the same on all servers")
    ] = ""
    relay: Annotated[bool, msgspec.Meta(description="deliver events to webhooks and the broker")] = True
    relay_lease_seconds: Annotated[
        float, msgspec.Meta(description="how long a silent server keeps its relays")
    ] = 30.0
    event_days: Annotated[int, msgspec.Meta(description="how long events and dead letters are kept")] = 30
    webhook_allow_private: Annotated[
        str, msgspec.Meta(description="networks that webhooks may reach besides public ones: cidr,cidr")
    ] = ""
    webhook_timeout_seconds: Annotated[float, msgspec.Meta(description="longest wait for a webhook")] = 10.0
    webhook_attempts_max: Annotated[int, msgspec.Meta(description="attempts before a dead letter")] = 20
    webhook_retry_base_seconds: Annotated[
        float, msgspec.Meta(description="rest after an event's first failed attempt")
    ] = 1.0
    webhook_retry_most_seconds: Annotated[
        float, msgspec.Meta(description="longest rest between two attempts of one event")
    ] = 3600.0
    nats_url: Annotated[str, msgspec.Meta(description="NATS server that gets a copy of every event")] = ""
    nats_stream: Annotated[str, msgspec.Meta(description="JetStream stream of the copies")] = "INTERLOCK"
    nats_subject: Annotated[str, msgspec.Meta(description="what the copies' subjects begin with")] = (
        "interlock.events"
    )
    log_format: Annotated[str, msgspec.Meta(description="json or text")] = "json"
    log_level: Annotated[str, msgspec.Meta(description="debug, info, warning or error")] = "info"

    def backoff(self) -> Backoff:
        """How long jobs rest between attempts."""
        from interlock.jobs.leasing import Backoff

        return Backoff(base_seconds=self.retry_base_seconds, most_seconds=self.retry_most_seconds)

    def kernel_limits(self) -> KernelLimits:
        return KernelLimits(
            batch_max=self.batch_max, queue_max=self.queue_max, acquire_seconds=self.acquire_seconds
        )


class BadSetting(Exception):
    """A setting cannot be used; the message names it and says what is allowed."""


# A hundred years, and one: what is longer has no end that a date could name.
_DAYS_MAX = 36_500
_REST_SECONDS_MAX = 365 * 86_400
_WANTED = {"int": "a whole number", "float": "a number", "bool": "true or false"}


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
        raise BadSetting(f"{_reason(str(error), values)}; see `interlock serve --help`") from error
    _check(settings)
    return settings


def _reason(found: str, values: dict[str, object]) -> str:
    """What is wrong with which setting, as a person would say it."""
    name = found.rpartition("$.")[2].rstrip("`")
    wanted = next((words for kind, words in _WANTED.items() if f"Expected `{kind}" in found), None)
    return f"{name} must be {wanted}, not {values[name]!r}" if wanted and name in values else found


def _check(settings: Settings) -> None:
    rules = (
        (settings.lock_busy_status in (409, 423), "lock_busy_status must be 409 or 423"),
        (settings.log_format in ("json", "text"), "log_format must be json or text"),
        (
            settings.log_level in ("debug", "info", "warning", "error"),
            "log_level must be debug, info, warning or error",
        ),
        (0 < settings.acquire_seconds <= 3600, "acquire_seconds must be more than 0 and at most 3600"),
        (0 < settings.sweep_seconds <= 86_400, "sweep_seconds must be more than 0 and at most 86400"),
        (0 <= settings.drain_seconds <= 3600, "drain_seconds must be between 0 and 3600"),
        (0 < settings.stalled_seconds <= 3600, "stalled_seconds must be more than 0 and at most 3600"),
        (settings.body_bytes_max >= 1024, "body_bytes_max must be at least 1024"),
        (1 <= settings.batch_max <= 2000, "batch_max must be between 1 and 2000"),
        (
            0 < settings.retry_base_seconds <= settings.retry_most_seconds,
            "retry_base_seconds must be more than 0 and at most retry_most_seconds",
        ),
        (settings.retry_most_seconds <= _REST_SECONDS_MAX, "retry_most_seconds must be at most a year"),
        (
            1 <= settings.relay_lease_seconds <= 86_400,
            "relay_lease_seconds must be between 1 and 86400",
        ),
        (1 <= settings.event_days <= _DAYS_MAX, f"event_days must be between 1 and {_DAYS_MAX}"),
        (
            _are_networks(settings.webhook_allow_private),
            "webhook_allow_private must be like 10.1.0.0/16,fd00::/8",
        ),
        (
            0 < settings.webhook_timeout_seconds <= 3600,
            "webhook_timeout_seconds must be more than 0 and at most 3600",
        ),
        (settings.webhook_attempts_max >= 1, "webhook_attempts_max must be at least 1"),
        (
            0 < settings.webhook_retry_base_seconds <= settings.webhook_retry_most_seconds,
            "webhook_retry_base_seconds must be more than 0 and at most webhook_retry_most_seconds",
        ),
        (
            settings.webhook_retry_most_seconds <= _REST_SECONDS_MAX,
            "webhook_retry_most_seconds must be at most a year",
        ),
        (settings.queue_max >= 1, "queue_max must be at least 1"),
        (1 <= settings.lanes <= 16, "lanes must be between 1 and 16"),
        (0 <= settings.port <= 65535, "port must be between 0 and 65535"),
        (
            1 <= settings.idempotency_days <= _DAYS_MAX,
            f"idempotency_days must be between 1 and {_DAYS_MAX}",
        ),
    )
    for holds, message in rules:
        if not holds:
            raise BadSetting(f"{message}; see `interlock serve --help`")


def _are_networks(text: str) -> bool:
    from interlock.relays.addresses import read_networks

    try:
        read_networks(text)
    except ValueError:
        return False
    return True

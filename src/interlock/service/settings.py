"""Every setting of a server: its default, its meaning, its environment variable and its name in a file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from interlock.kernel.kernel import KernelLimits
    from interlock.rooms.jobs.holds import JobBackoff


EMBEDDED_FILE = ".interlock/interlock.db"
_FILE = "sqlite:///"
_SERVER = ("postgresql://", "postgres://")
EMBEDDED_STORE = f"{_FILE}{EMBEDDED_FILE}"


def nearest(name: str, start: Path) -> Path | None:
    """The nearest file of this name in a folder or above it: how `interlock.yaml` and the embedded store are found."""
    return next((path for path in _candidates(name, start) if os.path.isfile(path)), None)  # noqa: PTH113 - says no to what may not be looked at


def embedded_store() -> str:
    """The embedded store for the current folder: the nearest one, or else where the first write makes it."""
    try:
        here = Path.cwd()
    except OSError:
        return EMBEDDED_STORE  # The folder is gone; opening the store says so.
    found = nearest(EMBEDDED_FILE, here)
    if found is None or found.parent.parent == here:
        return EMBEDDED_STORE
    return f"{_FILE}{found}"


def store_named(given: str | None) -> str | None:
    """The store named by an option or INTERLOCK_STORE; None if it is left to `embedded_store`."""
    return given or os.environ.get("INTERLOCK_STORE") or None


async def make_store(url: str) -> bool:
    """Make the store if it is not there; returns whether it was made now."""
    from interlock.kernel.storage import StoreMissing
    from interlock.store import store_for

    was_made = False
    store = store_for(url, lanes=1, makes=False)
    try:
        await store.open()
    except StoreMissing:
        was_made, store = True, store_for(url, lanes=1)
        await store.open()
    await store.close()
    return was_made


def room_at(url: str) -> tuple[str, int | None]:
    """The place of a store without its password, and how many bytes are free there, if this machine can see it."""
    if url.startswith(_FILE):
        from interlock.store.sqlite.place import free_bytes

        path = Path(url.removeprefix(_FILE)).absolute()
        return str(path), free_bytes(path)
    if url.startswith(_SERVER):
        from interlock.store.postgres.place import place_of

        return place_of(url), None
    return "memory", None


def _candidates(name: str, start: Path) -> Iterator[Path]:
    return (folder / name for folder in (start, *start.parents))


TENANT_DEFAULT = "default"
CONFIG_FILE = "interlock.toml"
NO_FILE = ""
# How `trusted_proxies` names callers on a Unix socket.
UNIX_PEER = "unix"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a server runs. A flag, `INTERLOCK_<NAME>` in the environment or a line of a file sets each one."""

    host: Annotated[str, msgspec.Meta(description="address to listen on")] = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(description="port to listen on; 0 picks a free one")] = 8700
    uds: Annotated[str, msgspec.Meta(description="Unix socket to listen on instead of host and port")] = ""
    root_path: Annotated[
        str, msgspec.Meta(description="prefix under which a proxy serves this, such as /interlock")
    ] = ""
    trusted_proxies: Annotated[
        str,
        msgspec.Meta(
            description="networks whose X-Forwarded-For and -Proto are believed: cidr,cidr; unix for the socket"
        ),
    ] = ""
    tls_cert: Annotated[str, msgspec.Meta(description="certificate chain to serve TLS with, in PEM")] = ""
    tls_key: Annotated[str, msgspec.Meta(description="private key of the certificate, in PEM")] = ""
    tls_client_ca: Annotated[
        str, msgspec.Meta(description="certificates that clients' certificates must be issued by, in PEM")
    ] = ""
    http2: Annotated[
        bool, msgspec.Meta(description="speak HTTP/2 too; a client that never speaks is then not cut off")
    ] = False
    workers: Annotated[int, msgspec.Meta(description="server processes; more than 1 on PostgreSQL only")] = 1
    metrics_address: Annotated[
        str,
        msgspec.Meta(
            description="HOST:PORT that shows /metrics with its tenants to every client that reaches it, without a key"
        ),
    ] = ""
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
    body_seconds: Annotated[float, msgspec.Meta(description="how long a request body may take to arrive")] = (
        30.0
    )
    bodies_bytes_max: Annotated[
        int, msgspec.Meta(description="most bytes held of unfinished request bodies together")
    ] = 64 * 1024 * 1024
    idle_seconds: Annotated[
        float, msgspec.Meta(description="how long a connection may be silent, or send the head of a request")
    ] = 30.0
    idempotency_days: Annotated[int, msgspec.Meta(description="how long idempotent answers are kept")] = 30
    sweep_seconds: Annotated[float, msgspec.Meta(description="pause between sweeps")] = 1.0
    drain_seconds: Annotated[float, msgspec.Meta(description="how long a stopping server finishes work")] = (
        20.0
    )
    stalled_seconds: Annotated[
        float, msgspec.Meta(description="how long a client may leave its answer unread")
    ] = 30.0
    retry_base_seconds: Annotated[float, msgspec.Meta(description="delay before a job's second attempt")] = (
        1.0
    )
    retry_most_seconds: Annotated[float, msgspec.Meta(description="longest delay between two attempts")] = (
        300.0
    )
    secret: Annotated[
        str,
        msgspec.Meta(
            description="encrypts the keys that sign permits and webhooks; the same on all servers. "
            "INTERLOCK_SECRET is the better place for it: `ps` shows options to everybody"
        ),
    ] = ""
    services_may_administer: Annotated[
        bool,
        msgspec.Meta(
            description="let services with the role admin change principals, keys, signers, webhooks and the policy, "
            "as people do"
        ),
    ] = False
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
        float, msgspec.Meta(description="delay before the second attempt to deliver an event")
    ] = 1.0
    webhook_retry_most_seconds: Annotated[
        float, msgspec.Meta(description="longest delay between two attempts of one event")
    ] = 3600.0
    nats_url: Annotated[str, msgspec.Meta(description="NATS server that gets a copy of every event")] = ""
    nats_stream: Annotated[str, msgspec.Meta(description="JetStream stream of the copies")] = "INTERLOCK"
    nats_subject: Annotated[str, msgspec.Meta(description="what the copies' subjects begin with")] = (
        "interlock.events"
    )
    oidc_issuer: Annotated[
        str,
        msgspec.Meta(description="identity provider that people sign in to the console with, as its issuer"),
    ] = ""
    oidc_client_id: Annotated[
        str, msgspec.Meta(description="client id that the provider gave this server")
    ] = ""
    oidc_client_secret: Annotated[
        str,
        msgspec.Meta(
            description="client secret of this server at the provider; INTERLOCK_OIDC_CLIENT_SECRET is the better "
            "place for it"
        ),
    ] = ""
    oidc_name: Annotated[str, msgspec.Meta(description="the provider's name on the sign-in page")] = ""
    oidc_scopes: Annotated[str, msgspec.Meta(description="what the provider is asked for")] = (
        "openid profile email"
    )
    oidc_groups_claim: Annotated[
        str, msgspec.Meta(description="claim in which the provider lists the groups of a person")
    ] = "groups"
    oidc_roles: Annotated[
        str,
        msgspec.Meta(
            description="roles of the provider's groups: group=role+role,group=role; * is everybody"
        ),
    ] = ""
    oidc_groups: Annotated[
        str,
        msgspec.Meta(description="groups of the provider's groups: theirs=ours,…; empty: by the same name"),
    ] = ""
    oidc_create: Annotated[
        bool,
        msgspec.Meta(
            description="make a principal at the first sign-in; roles and groups are the provider's"
        ),
    ] = True
    oidc_adopt: Annotated[
        bool,
        msgspec.Meta(
            description="let an account of the provider become the person of its name who was here before"
        ),
    ] = False
    oidc_tenant: Annotated[str, msgspec.Meta(description="tenant that the provider's people belong to")] = (
        TENANT_DEFAULT
    )
    oidc_providers: Annotated[
        str, msgspec.Meta(description="file in TOML with a table for each of several providers")
    ] = ""
    log_format: Annotated[str, msgspec.Meta(description="json or text")] = "json"
    log_level: Annotated[str, msgspec.Meta(description="debug, info, warning or error")] = "info"

    def backoff(self) -> JobBackoff:
        """How long jobs rest between attempts."""
        from interlock.rooms.jobs.holds import JobBackoff

        return JobBackoff(base_seconds=self.retry_base_seconds, most_seconds=self.retry_most_seconds)

    def kernel_limits(self) -> KernelLimits:
        from interlock.kernel.kernel import KernelLimits

        return KernelLimits(
            batch_max=self.batch_max, queue_max=self.queue_max, acquire_seconds=self.acquire_seconds
        )


class Origin(msgspec.Struct, frozen=True):
    """Where a setting was found (`flag`, `environment` or `file`), and what it said there."""

    source: str
    text: str


class ReadSettings(Settings, frozen=True, kw_only=True):
    """Settings that remember where each one was found; those that were found nowhere have their defaults."""

    origins: dict[str, Origin] = {}


class BadSetting(Exception):
    """A setting cannot be used; the message names it and says what is allowed."""


# A hundred years of days, and one year of seconds: a longer time may end after the last date that can be
# written.
_DAYS_MAX = 36_500
_REST_SECONDS_MAX = 365 * 86_400
_CHOICES: Mapping[str, tuple[object, ...]] = {
    "lock_busy_status": (409, 423),
    "log_format": ("json", "text"),
    "log_level": ("debug", "info", "warning", "error"),
}
_AT_LEAST = {"body_bytes_max": 1024, "bodies_bytes_max": 1024, "queue_max": 1, "webhook_attempts_max": 1}
_BETWEEN = {
    "port": (0, 65535),
    "batch_max": (1, 2000),
    "lanes": (1, 16),
    "workers": (1, 64),
    "drain_seconds": (0, 3600),
    "relay_lease_seconds": (1, 86_400),
    "event_days": (1, _DAYS_MAX),
    "idempotency_days": (1, _DAYS_MAX),
}
_ABOVE_NOTHING = {
    "acquire_seconds": 3600,
    "sweep_seconds": 86_400,
    "stalled_seconds": 3600,
    "body_seconds": 3600,
    "idle_seconds": 3600,
    "webhook_timeout_seconds": 3600,
    "retry_most_seconds": _REST_SECONDS_MAX,
    "webhook_retry_most_seconds": _REST_SECONDS_MAX,
}
_AT_MOST_ANOTHER = {
    "retry_base_seconds": "retry_most_seconds",
    "webhook_retry_base_seconds": "webhook_retry_most_seconds",
}
_ROOT_PATH = re.compile(r"(?:/[A-Za-z0-9._~-]+)+")
_OWN_PATHS = (
    *(
        "api",
        "console",
        "docs",
        "healthz",
        "hooks",
        "metrics",
        "openapi.json",
        "problems",
        "readyz",
        "schemas",
    ),
)
_WANTED = {"int": "a whole number", "float": "a number", "bool": "true or false"}


def settings_from(
    environ: Mapping[str, str] | None = None, *, config: str | None = None, **given: object
) -> ReadSettings:
    """Settings from the options, then from the environment, then from the file, then the defaults.

    `config` names the file, else `INTERLOCK_CONFIG` does; else it is `interlock.toml` in this folder, if there is one.
    With `NO_FILE` none is read.
    """
    environ = os.environ if environ is None else environ
    values = {} if config == NO_FILE else _from_file(config or environ.get("INTERLOCK_CONFIG"))
    origins = {name: Origin("file", str(value)) for name, value in values.items()}
    for name in Settings.__struct_fields__:
        variable = f"INTERLOCK_{name.upper()}"
        if (flag := given.get(name)) is not None:
            values[name], origins[name] = flag, Origin("flag", str(flag))
        elif found := environ.get(variable):
            values[name], origins[name] = found, Origin("environment", found)
    values.setdefault("store", embedded_store())
    try:
        settings = msgspec.convert({**values, "origins": origins}, ReadSettings, strict=False)
    except msgspec.ValidationError as error:
        raise BadSetting(_reason(str(error), values)) from error
    _check(settings)
    return settings


def _from_file(named: str | None) -> dict[str, object]:
    """What a configuration file says; a name that is no setting's is refused, with the nearest one that is."""
    path = Path(named or CONFIG_FILE)
    if not path.exists():
        if named is None:
            return {}
        raise BadSetting(f"there is no file {path}; correct --config or INTERLOCK_CONFIG")
    import tomllib  # Most commands find no file, and need not pay for it.

    try:
        values = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(f"{path} cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise BadSetting(f"{path} is not TOML: {error}") from None
    for name, value in values.items():
        if name not in Settings.__struct_fields__:
            raise BadSetting(f"{path}: {name} is not a setting{_nearest(name)}")
        if isinstance(value, dict | list):
            raise BadSetting(f"{path}: {name} must be one value")
    return values


def _nearest(name: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name.replace("-", "_"), Settings.__struct_fields__, n=1, cutoff=0.4)
    return f"; did you mean {close[0]}?" if close else ""


def _reason(found: str, values: dict[str, object]) -> str:
    """The setting that is wrong and why, in plain words."""
    name = found.rpartition("$.")[2].rstrip("`")
    wanted = next((words for kind, words in _WANTED.items() if f"Expected `{kind}" in found), None)
    return f"{name} must be {wanted}, not {values[name]!r}" if wanted and name in values else found


def _check(settings: Settings) -> None:
    wrong = next(_mistakes({name: getattr(settings, name) for name in Settings.__struct_fields__}), None)
    if wrong is not None:
        raise BadSetting(wrong)
    if settings.oidc_issuer or settings.oidc_client_id or settings.oidc_providers:
        from interlock.service.providers import providers_from  # Most servers have none.

        providers_from(settings)


def _mistakes(values: Mapping[str, Any]) -> Iterator[str]:
    """Name each setting that cannot be used, and say what it must be."""
    for name, choices in _CHOICES.items():
        if values[name] not in choices:
            *most, last = map(str, choices)
            yield f"{name} must be {', '.join(most)} or {last}"
    for name, least in _AT_LEAST.items():
        if values[name] < least:
            yield f"{name} must be at least {least}"
    for name, (least, most) in _BETWEEN.items():
        if not least <= values[name] <= most:
            yield f"{name} must be between {least} and {most}"
    for name, most in _ABOVE_NOTHING.items():
        if not 0 < values[name] <= most:
            yield f"{name} must be more than 0 and at most {most}"
    for name, other in _AT_MOST_ANOTHER.items():
        if not 0 < values[name] <= values[other]:
            yield f"{name} must be more than 0 and at most {other}"
    if not _are_networks(values["webhook_allow_private"]):
        yield "webhook_allow_private must be like 10.1.0.0/16,fd00::/8"
    yield from _listening_mistakes(values)


def _listening_mistakes(values: Mapping[str, Any]) -> Iterator[str]:
    """Check how and where a server is to listen."""
    proxies = ",".join(word for word in values["trusted_proxies"].split(",") if word.strip() != UNIX_PEER)
    if not _are_networks(proxies):
        yield f"trusted_proxies must be like 10.1.0.0/16,fd00::/8, or {UNIX_PEER} for a Unix socket"
    root = values["root_path"]
    if root and (not _ROOT_PATH.fullmatch(root) or {".", ".."} & set(root.split("/"))):
        yield "root_path must be plain words, each behind one slash, such as /interlock"
    elif root.partition("/")[2].partition("/")[0] in _OWN_PATHS:
        yield f"root_path must not begin with one of Interlock's own paths ({', '.join(_OWN_PATHS)})"
    if bool(values["tls_cert"]) != bool(values["tls_key"]):
        yield "tls_cert and tls_key must be set together"
    elif values["tls_client_ca"] and not values["tls_cert"]:
        yield "tls_client_ca needs tls_cert and tls_key"
    if values["workers"] > 1 and not values["store"].startswith(("postgresql:", "postgres:")):
        yield "workers must be 1 on SQLite and in memory, where one process decides; use PostgreSQL for more"
    elif values["workers"] > 1 and values["uds"]:
        yield "workers must be 1 on a Unix socket, which one process listens on; use host and port for more"
    if values["metrics_address"] and host_and_port(values["metrics_address"]) is None:
        yield "metrics_address must be HOST:PORT, like 127.0.0.1:9700"
    elif values["metrics_address"] and values["workers"] > 1:
        yield "metrics_address shows the figures of one process, so workers must be 1; start several servers instead"


def host_and_port(address: str) -> tuple[str, int] | None:
    """The two parts of `HOST:PORT` or `[HOST]:PORT`; None for anything else."""
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    is_port = port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535
    return (host, int(port)) if host and is_port else None


def _are_networks(text: str) -> bool:
    from interlock.rooms.events.addresses import read_networks

    try:
        read_networks(text)
    except ValueError:
        return False
    return True

"""`interlock serve`: runs the server; every setting is an option, an environment variable and a line of a file."""

from __future__ import annotations

import signal
import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any, NoReturn, cast, get_args, get_type_hints

from interlock.cli.exits import Exit, Failed
from interlock.cli.options import Parser, as_json, quietly, wants_json
from interlock.cli.output import say, say_json, without_password

if TYPE_CHECKING:
    from interlock.cli.progress import Progress
    from interlock.service.operator import Greeting
    from interlock.service.settings import Settings


def declare_version() -> Parser:
    """The options of `interlock version`."""
    parser = Parser("interlock version", description="Print the version of this program.")
    as_json(parser)
    parser.set_defaults(run=run_version)
    return parser


def run_version(args: Namespace) -> int:
    """Print it."""
    version = installed_version()
    if wants_json(args):
        say_json({"version": version})
    else:
        say(f"interlock {version}")
    return Exit.DONE


def installed_version() -> str:
    """The version that was installed."""
    from importlib.metadata import version

    return version("interlock")


_METAVARS = {
    "host": "HOST",
    "log_format": "json|text",
    "log_level": "LEVEL",
    "metrics_address": "HOST:PORT",
    "nats_url": "URL",
    "oidc_client_secret": "SECRET",
    "oidc_issuer": "URL",
    "oidc_providers": "FILE",
    "policy": "FILE",
    "secret": "SECRET",
    "root_path": "PATH",
    "store": "URL",
    "tls_cert": "FILE",
    "tls_client_ca": "FILE",
    "tls_key": "FILE",
    "trusted_proxies": "NETWORKS",
    "uds": "PATH",
    "webhook_allow_private": "NETWORKS",
}


def declare_serve() -> Parser:
    """The options of `interlock serve`: the fields of `Settings`."""
    from interlock.service.settings import Settings

    parser = Parser(
        "interlock serve",
        description="Run the server. On an empty store it prints one admin key, once.\n"
        "SIGTERM or Ctrl-C stops it after it has finished what it accepted.",
        examples=(
            "interlock serve --policy policy.yaml",
            "interlock serve --host 0.0.0.0 --store postgresql://interlock@db/interlock --workers 4",
            "interlock serve --tls-cert server.pem --tls-key server.key",
            "INTERLOCK_PORT=8800 interlock serve",
        ),
    )
    for name, hint in get_type_hints(Settings, include_extras=True).items():
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            metavar=_metavar(name, hint),
            help=f"{_meaning(hint)} [INTERLOCK_{name.upper()}; default: {_default(name)}]",
        )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="settings in TOML, by the names above with underscores; flags and the environment count more "
        "[INTERLOCK_CONFIG; default: interlock.toml in this folder, if there is one]",
    )
    quietly(parser)
    as_json(parser)
    parser.set_defaults(run=run_serve)
    return parser


def run_serve(args: Namespace) -> int:
    """Serve until told to stop."""
    from interlock.api.server import serve
    from interlock.cli.connection import bad_setting, explained
    from interlock.cli.progress import told_of_migrations
    from interlock.service.settings import BadSetting, Settings, settings_from

    given = {name: getattr(args, name, None) for name in Settings.__struct_fields__}
    try:
        settings = settings_from(config=args.config, **given)
    except BadSetting as error:
        raise bad_setting(error) from None
    _check(settings)
    # The server finishes its work and then passes the signal on; a stop that was asked for is no failure.
    signal.signal(signal.SIGTERM, _stop)
    try:
        with _progress(args, settings) as progress, told_of_migrations(progress):
            serve(
                settings,
                lambda address, greeting: _announce(settings, address, greeting, as_json=wants_json(args)),
            )
    except KeyboardInterrupt:
        return Exit.DONE
    except Exception as error:
        failed = _not_listening(error, settings) or explained(error)
        if failed is None:
            raise
        raise failed from error
    return Exit.DONE


def _progress(args: Namespace, settings: Settings) -> Progress:
    """Of bringing the store to this version's schema, before the server listens: elsewhere as lines of the log."""
    from interlock.cli.progress import UPDATING, Progress
    from interlock.service.logs import Form, Level, Log

    log = Log(form=cast("Form", settings.log_format), level=cast("Level", settings.log_level))

    def tell(what: str, done: int, total: int) -> None:
        log.event("info", "updating_the_store", part=what, done=done, total=total)

    return Progress(UPDATING, is_even=False, is_shown=not args.quiet, elsewhere=tell)


def _check(settings: Settings) -> None:
    """Refuse, before anything listens, what could only fail later."""
    from importlib.util import find_spec

    if settings.policy:
        from interlock.cli.policy_files import read_policy

        read_policy(settings.policy)
    _check_tls(settings)
    if settings.nats_url and settings.relay and find_spec("nats") is None:
        advice = "in the clone: pip install '.[nats]'; or leave --nats-url out"
        raise Failed(f"the NATS client is not installed; {advice}", Exit.USAGE, name="bad_setting")


def _check_tls(settings: Settings) -> None:
    """Refuse files that TLS could not be served with."""
    import ssl

    if not settings.tls_cert:
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for name, load in (
        ("tls_cert or tls_key", lambda: context.load_cert_chain(settings.tls_cert, settings.tls_key)),
        (
            "tls_client_ca",
            lambda: settings.tls_client_ca and context.load_verify_locations(settings.tls_client_ca),
        ),
    ):
        try:
            load()
        except OSError as error:  # an SSLError is one
            detail = (
                f"{name} cannot be used: {error.strerror or error}; give files in PEM that belong together"
            )
            raise Failed(detail, Exit.USAGE, name="bad_setting") from None


def _stop(number: int, frame: object) -> NoReturn:
    sys.exit(Exit.DONE)


def _announce(settings: Settings, address: str, greeting: Greeting, *, as_json: bool) -> None:
    store, admin = without_password(settings.store), greeting.admin
    sign_in = address + greeting.sign_in.path if greeting.sign_in else None
    if as_json:
        key = admin.key if admin else None
        say_json({"url": address, "store": store, "admin_key": key, "sign_in": sign_in})
    else:
        say(f"Interlock {installed_version()} is listening on {address}", f"store: {store}")
        if sign_in:
            say(f"sign in once, within 12 hours: {sign_in}")
        if admin:
            say(
                "",
                "This store had no keys. The key of its first admin, shown only now and kept nowhere:",
                "",
                f"admin key: {admin.key}",
                "",
                "Use it with `interlock login` or `export INTERLOCK_KEY=…`, "
                "and make keys for others with `interlock key create`.",
            )
    sys.stdout.flush()


def _not_listening(error: Exception, settings: Settings) -> Failed | None:
    """The end of a server that could not have its port."""
    import errno

    if not isinstance(error, OSError):
        return None
    where = settings.uds or f"{settings.host}:{settings.port}"
    if error.errno == errno.EADDRINUSE:
        other = "--uds" if settings.uds else "port (--port 0 picks one)"
        detail = f"{where} is in use; stop what listens there, or choose another {other}"
    else:
        why = (error.strerror or str(error)).partition(" (")[0]
        other = "--uds" if settings.uds else "--host or --port"
        detail = f"cannot listen on {where}: {why}; choose another {other}"
    return Failed(detail, name="not_listening")


def _meaning(hint: Any) -> str:
    return str(get_args(hint)[1].description).replace("%", "%%")


def _metavar(name: str, hint: Any) -> str:
    kinds = {int: "N", float: "SECONDS", bool: "true|false"}
    return _METAVARS.get(name) or kinds.get(get_args(hint)[0], "NAME")


def _default(name: str) -> str:
    from interlock.service.settings import Settings

    value: object = getattr(Settings(), name)
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if value != "" else "none"

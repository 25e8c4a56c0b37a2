"""`interlock login`, `logout` and `whoami`: the server and the key that commands use if nothing else names them.

A login is one file that its user alone may read. It is used if neither an option nor the environment names a server or
a store, and then also in a folder that has a store of its own. Its key is never sent to another server. Only commands
use it: programs with the SDK and drills do not, so that an agent does not act as the person who logged in.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from interlock.cli.exits import Exit, Failed
from interlock.cli.options import LOCAL_SERVER, Parser, Untold, as_json, finished, given, login_of, wants_json
from interlock.cli.output import listed, safe, say, say_fields, say_json, warn, without_password

if TYPE_CHECKING:
    from interlock.wire.identity import Principal

_MODE = 0o600
_OTHERS = 0o077
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """Where a person works, and the key to act with."""

    url: str
    key: str


class WhoAmI(msgspec.Struct, frozen=True, kw_only=True):
    """Who a command acts as and where, and what said so."""

    name: str
    kind: str
    roles: tuple[str, ...]
    groups: tuple[str, ...]
    owner: str | None
    server: str | None
    store: str | None
    place_from: str
    key_from: str | None


def use_login(args: Namespace) -> None:
    """Let a command work where its user logged in, if neither an option nor the environment says where."""
    named = (
        given(args, "url"),
        given(args, "store"),
        *map(os.environ.get, ("INTERLOCK_URL", "INTERLOCK_STORE")),
    )
    if any(named) or (login := kept_login()) is None:
        return
    args.login, args.url = login, login.url
    if not given(args, "api_key") and not os.environ.get("INTERLOCK_KEY"):
        args.api_key, args.logged_in_key = login.key, True


def login_path() -> Path:
    """The file of the login, whether there is one or not."""
    kept = os.environ.get("XDG_CONFIG_HOME") or ""
    # The specification of XDG ignores a path that is not absolute.
    folder = Path(kept) if kept.startswith("/") else Path.home() / ".config"
    return folder / "interlock" / "login.json"


def kept_login() -> Login | None:
    """The login that was kept; refused if others may read it."""
    path = login_path()
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & _OTHERS:
                raise Failed(
                    f"others can read your key in {path}; run `chmod 600 {path}`", name="login_readable"
                )
            return msgspec.json.decode(file.read(), type=Login)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Failed(
            f"{path} cannot be read: {error}; `interlock login` writes it again", name="bad_login"
        ) from None


def declare_login() -> Parser:
    """The options of `interlock login`."""
    parser = Parser(
        "interlock login",
        description="Keep a server and your key for the commands that you run, in a file that you alone can read.\n"
        "The key is asked for without showing it, or read from standard input, and is checked first.\n"
        "Options and INTERLOCK_URL, INTERLOCK_STORE and INTERLOCK_KEY go before the login; the login goes before a\n"
        "store in this folder. Programs with the SDK and drills do not use it.",
        examples=(
            "interlock login https://interlock.example.com",
            "interlock login < key.txt",
            "interlock whoami",
            "interlock logout",
        ),
    )
    parser.add_argument(
        "server",
        metavar="URL",
        nargs="?",
        help=f"the server (default: INTERLOCK_URL, or {LOCAL_SERVER})",
    )
    as_json(parser)
    parser.set_defaults(run=run_login)
    return parser


def declare_logout() -> Parser:
    """The options of `interlock logout`."""
    parser = Parser(
        "interlock logout",
        description="Forget the server and the key that `interlock login` kept. The key itself stays valid.",
        examples=("interlock logout",),
    )
    as_json(parser)
    parser.set_defaults(run=run_logout)
    return parser


def declare_whoami() -> Parser:
    """The options of `interlock whoami`."""
    parser = Parser(
        "interlock whoami",
        description="Say who you are, on which server or store, and what said so: an option, the environment,\n"
        "your login, or the folder.",
        examples=("interlock whoami", "interlock whoami --json"),
    )
    return finished(parser, run_whoami)


def run_login(args: Namespace) -> int:
    """Ask for the key, check it, and keep both."""
    url = (args.server or given(args, "url") or os.environ.get("INTERLOCK_URL") or LOCAL_SERVER).rstrip("/")
    _tell_open_line(url)
    login = Login(url=url, key=given(args, "api_key") or _asked_key(url))
    checking = Namespace(url=url, api_key=login.key, patience=Untold(30), login=login, json=wants_json(args))
    who = _who(checking)
    path = login_path()
    _keep(path, login)
    if wants_json(args):
        say_json({"name": who.name, "server": without_password(url), "file": str(path)})
        return Exit.DONE
    say(f"you are {safe(who.name)} at {safe(without_password(url))}; kept in {path}")
    _tell_what_goes_before()
    return Exit.DONE


def run_logout(args: Namespace) -> int:
    """Forget it."""
    path = login_path()
    was_there = path.exists()
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise Failed(f"{path} cannot be removed: {error.strerror}") from None
    if wants_json(args):
        say_json({"logged_out": was_there})
    elif was_there:
        say("logged out; the key itself stays valid until an admin ends it with `interlock key revoke`")
    else:
        say("you were not logged in")
    return Exit.DONE


def run_whoami(args: Namespace) -> int:
    """Ask who it is, and say where."""
    from interlock.cli.connection import answer

    who = _who(args)
    server, store, place_from = _place(args)
    found = WhoAmI(
        name=who.name,
        kind=who.kind,
        roles=who.roles,
        groups=who.groups,
        owner=who.owner,
        server=server,
        store=store,
        place_from=place_from,
        key_from=_key_from(args),
    )
    return answer(args, found, _say)


def _say(found: WhoAmI) -> None:
    key_from = found.key_from or "none; you act as the user of this machine"
    say_fields(
        [
            ("you are", f"{safe(found.name)} ({safe(found.kind)})"),
            ("roles", listed(found.roles)),
            ("groups", listed(found.groups, "")),
            ("owner", safe(found.owner or "")),
            ("server", safe(found.server or "")),
            ("store", safe(found.store or "")),
            ("named by", safe(found.place_from)),
            ("key", safe(key_from)),
        ]
    )
    if found.place_from.startswith("your login"):
        tell_unused_store()


def _who(args: Namespace) -> Principal:
    from interlock.cli.connection import connected, typed
    from interlock.wire.identity import Principal

    with connected(args) as client:
        return typed(client.call("GET", "principals", "me"), Principal)


def _place(args: Namespace) -> tuple[str | None, str | None, str]:
    """The server or the store that is used, without passwords, and what named it."""
    from interlock.service.settings import embedded_store

    if login := login_of(args):
        return without_password(login.url), None, f"your login ({login_path()})"
    if url := given(args, "url"):
        return without_password(url), None, "--url"
    if store := given(args, "store"):
        return None, without_password(store), "--store"
    if url := os.environ.get("INTERLOCK_URL"):
        return without_password(url), None, "INTERLOCK_URL"
    if store := os.environ.get("INTERLOCK_STORE"):
        return None, without_password(store), "INTERLOCK_STORE"
    return None, embedded_store(), "this folder, or the nearest one above that has a store"


def _key_from(args: Namespace) -> str | None:
    if getattr(args, "logged_in_key", False):
        return "your login"
    if given(args, "api_key"):
        return "--api-key"
    return "INTERLOCK_KEY" if os.environ.get("INTERLOCK_KEY") else None


def _asked_key(url: str) -> str:
    """The key, from a person who types it unseen, or from the first line of a file or a pipe."""
    from getpass import getpass

    try:
        text = getpass(f"key for {url}: ") if sys.stdin.isatty() else sys.stdin.readline()
    except EOFError:
        text = ""
    if key := text.strip():
        return key
    raise Failed(
        "no key was given, so nothing is kept; an admin makes one with `interlock key create`", Exit.USAGE
    )


def _keep(path: Path, login: Login) -> None:
    """Replace the file as a whole. It is never, not for a moment, readable by others."""
    new = path.with_name(f".login-{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE), "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(login)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise Failed(f"the login cannot be kept in {path}: {error.strerror}") from None


def _tell_open_line(url: str) -> None:
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        warn(f"{without_password(url)} is not encrypted: others on the way can read your key; use https")


def _tell_what_goes_before() -> None:
    for name in ("INTERLOCK_URL", "INTERLOCK_STORE", "INTERLOCK_KEY"):
        if os.environ.get(name):
            warn(f"{name} is set and goes before the login; `unset {name}` to use the login")
    tell_unused_store()


def tell_unused_store() -> None:
    """Say that the folder's own store is not used: the surprise would otherwise come later."""
    from interlock.service.settings import EMBEDDED_FILE, nearest

    try:
        found = nearest(EMBEDDED_FILE, Path.cwd())
    except OSError:
        return
    if found is not None:
        warn(f"the store {found} is not used while you are logged in; use it with --store sqlite:///{found}")

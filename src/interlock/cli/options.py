"""Argument parsers with helpful errors, and the options that many commands share."""

from __future__ import annotations

import argparse
import os
import re
from argparse import Namespace
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

from interlock.cli.exits import Exit, Failed
from interlock.cli.values import count_to, intent_name, pair, seconds

if TYPE_CHECKING:
    from interlock.cli.login import Login

P = TypeVar("P", bound=argparse.ArgumentParser)
Run: TypeAlias = Callable[[argparse.Namespace], int]

GLOBAL_OPTIONS = ("--url", "--api-key", "--store")
GLOBAL_FLAGS = ("--json",)
ACQUIRE_SECONDS = 2.0
LOCAL_SERVER = "http://127.0.0.1:8700"
LIMIT_DEFAULT = 50

_ENVIRONMENT = """\
environment:
  INTERLOCK_URL    the server (default: your login, or a store in this process)
  INTERLOCK_KEY    the API key; unlike the option, it does not show in `ps`
  INTERLOCK_STORE  the store: sqlite:///path or postgresql://…
                   (default: .interlock/interlock.db)
"""
_SERVER_ENVIRONMENT = """\
environment:
  INTERLOCK_URL    the server; {otherwise}
  INTERLOCK_KEY    the API key; unlike the option, it does not show in `ps`
"""


class Parser(argparse.ArgumentParser):
    """An argument parser that takes no abbreviations and says where to read more."""

    def __init__(
        self,
        prog: str,
        *,
        description: str = "",
        examples: Sequence[str] = (),
        more: str = "",
        **newer: Any,  # what later versions of argparse hand to the parsers of verbs
    ) -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=more,
            allow_abbrev=False,
            formatter_class=_Help,
            **newer,
        )
        self.examples = tuple(examples)

    def format_help(self) -> str:
        """Everything that a manual page would say."""
        from interlock.cli.manual import after_options, examples_of

        more = self.epilog or ""
        self.epilog = after_options(self.prog, self.examples or examples_of(self.prog), more)
        try:
            return super().format_help()
        finally:
            self.epilog = more

    def takes(self) -> str:
        """The names of what it takes beside options."""
        return " ".join(str(action.metavar) for action in self._get_positional_actions())

    def error(self, message: str) -> NoReturn:
        """End with what is wrong, in one line, and where to read more."""
        said = _plainly(message)
        more = f"{' See' if said.endswith('?') else '; see'} `{self.prog} --help`"
        raise Failed(f"{said}{more}", Exit.USAGE, name="usage")

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride] - as argparse calls it
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuse what is not known here: what a verb does not take is told with the usage of that verb."""
        found, unknown = super().parse_known_args(args, namespace or argparse.Namespace())
        if unknown:
            options = [name for action in self._actions for name in action.option_strings]
            self.error(f"unrecognized arguments: {' '.join(unknown)}{_meant(unknown[0], options)}")
        return found, unknown


def _show(_: str) -> str:
    return "show"


def _is_example(word: str) -> bool:
    """Whether a word of an example stands for something, and is no verb: `job_…`, `refund:4711`, `KID`."""
    return not (word.islower() and word.isalpha())


class Noun(Parser):
    """The parser of a noun, which has verbs. A first word that is not one of them means `show`.

    `otherwise` names another verb for such a word, where there is one.
    """

    def __init__(self, prog: str, *, otherwise: Callable[[str], str] = _show, **words: Any) -> None:
        super().__init__(prog, add_help=False, **words)
        self.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
        self._otherwise = otherwise
        self._shown: Parser | None = None
        self._verbs = self.add_subparsers(title="verbs", required=True, parser_class=Parser)

    def verb(self, name: str, summary: str, **more: Any) -> Parser:
        """Add a verb; its summary stands in the noun's help and heads its own."""
        described = f"{summary[0].upper()}{summary[1:]}."
        more.setdefault("examples", self._examples_of(name))
        parser = self._verbs.add_parser(name, help=summary, description=described, **more)
        if name == "show":
            self._shown = parser
        self._verbs.metavar = "|".join(self._verbs.choices)
        return parser

    def _examples_of(self, verb: str) -> tuple[str, ...]:
        """Those of the noun's examples that are this verb's: by its name, or by what comes in its place."""
        found: list[str] = []
        for example in self.examples:
            word = example.partition(f"{self.prog} ")[2].partition(" ")[0]
            if word == verb or (_is_example(word) and self._otherwise(word) == verb):
                found.append(example)
        return tuple(found)

    def format_help(self) -> str:
        """The verbs, and what the noun means without one."""
        self.usage = "%(prog)s VERB …"
        if self._shown:
            which = self._shown.takes()
            self.usage += f"\n       %(prog)s {which}   (the same as `%(prog)s show`)"
        return super().format_help()

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride] - as argparse calls it
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse with the verb that the first word is, or means."""
        given, known = list(args or ()), self._verbs.choices
        if not given:
            shown = self._shown.takes() if self._shown else ""
            verbs = [name for name in known if len(known) > 1 or not shown]
            missing = [f"{'one of ' if len(verbs) > 1 else ''}{', '.join(verbs)}"] if verbs else []
            self.error(f"missing: {' or '.join([*missing, *filter(None, [shown])])}")
        if given[0] in ("-h", "--help", *known):
            return super().parse_known_args(given, namespace)
        verb = self._otherwise(given[0])
        if verb not in known:
            self.error(
                f"{given[0]!r} is not valid; use one of {', '.join(known)}{_meant(given[0], list(known))}"
            )
        try:
            return super().parse_known_args([verb, *given], namespace)
        except Failed:
            if meant := _meant(given[0], list(known)):
                self.error(f"{given[0]!r} is not one of {', '.join(known)}{meant}")
            raise


def _filled(lines: list[str], width: int, fill: Callable[..., str]) -> str:
    """A paragraph, or headings of one line each."""
    if all(len(line) <= width for line in lines):
        return "\n".join(lines)
    return fill(" ".join(lines), width, break_long_words=False, break_on_hyphens=False)


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help with room for long options, and with each option's value named once."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=34)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Paragraphs as wide as the terminal; lines that are set in stay as they are: they are examples and tables."""
        from textwrap import fill

        filled: list[str] = []
        for is_set_in, lines in groupby(text.splitlines(), lambda line: not line or line.startswith(" ")):
            paragraph = list(lines)
            filled += paragraph if is_set_in else [_filled(paragraph, width, fill)]
        return "\n".join(f"{indent}{line}" for line in filled)

    def _format_action(self, action: argparse.Action) -> str:
        text = super()._format_action(action)
        # The usage has named the verbs' place; what is listed is each verb.
        return text.partition("\n")[2] if isinstance(action.choices, dict) else text


_CHOICE = re.compile(r"argument (\S+): invalid choice: '(.*)' \(choose from (.+)\)", re.DOTALL)


def _plainly(message: str) -> str:
    """What argparse says, shorter, and with what was probably meant."""
    if found := _CHOICE.fullmatch(message):
        name, given, known = found[1], found[2], found[3].replace("'", "")
        place = f"argument {name}: " if name.startswith("-") else ""
        return f"{place}{given!r} is not valid; use one of {known}{_meant(given, known.split(', '))}"
    return message.replace("the following arguments are required:", "missing:", 1)


def _meant(word: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word, known, 1)
    return f"; did you mean {close[0]}?" if close else ""


class Untold(int):
    """A default that the caller did not ask for."""


def acquire_seconds(patience_seconds: int) -> float:
    """How long to wait for the process that holds the store: as long as a server does, or as `--patience` says."""
    return ACQUIRE_SECONDS if isinstance(patience_seconds, Untold) else float(patience_seconds)


def connecting(
    parser: argparse.ArgumentParser,
    *,
    otherwise: str = "",
    gives_up: bool = True,
) -> None:
    """Add where to work and as whom. An option that is not given is left to the environment.

    `otherwise` is for a command that opens no store: what it does if no server is named. One that never `gives_up`
    takes no patience.
    """
    group = parser.add_argument_group("where and as whom")
    absent = argparse.SUPPRESS  # so that the same option before the command's name is not overwritten
    group.add_argument("--url", metavar="URL", default=absent, help="a server, such as http://127.0.0.1:8700")
    group.add_argument("--api-key", metavar="KEY", default=absent, help="the API key to act with")
    if not otherwise:
        group.add_argument("--store", metavar="URL", default=absent, help="a store to open in this process")
    if gives_up:
        group.add_argument(
            "--patience",
            metavar="30s",
            type=seconds,
            default=Untold(30),
            help="keep trying this long while it is full, held or out of reach "
            "(default: a few times if it is out of reach, and not at all if it is full or held; 0s tries once)",
        )
    parser.set_defaults(uses_login=not otherwise)
    environment = _SERVER_ENVIRONMENT.format(otherwise=otherwise) if otherwise else _ENVIRONMENT
    parser.epilog = "\n".join(part for part in (parser.epilog, environment) if part)


def in_session(parser: argparse.ArgumentParser) -> None:
    """Add the session that a lease is acquired in, and used in."""
    parser.add_argument(
        "--session",
        metavar="NAME",
        help="tells apart several workers of one principal; only the session that acquired a lease may use it "
        "(default: INTERLOCK_SESSION)",
    )


def session_of(args: argparse.Namespace) -> str:
    """The session that a command acts in; empty if there is none."""
    named: str | None = args.session
    return os.environ.get("INTERLOCK_SESSION", "") if named is None else named


def intent(parser: argparse.ArgumentParser, meaning: str) -> None:
    """Add a name for what the caller wants done once."""
    parser.add_argument(
        "--key",
        dest="intent",
        type=intent_name,
        metavar="NAME",
        help=f"a name for this intent: {meaning}",
    )


def quietly(parser: argparse.ArgumentParser) -> None:
    """Add `--quiet`, for a command that may take long."""
    parser.add_argument("--quiet", action="store_true", help="show no progress on stderr")


def as_json(parser: argparse.ArgumentParser) -> None:
    """Add `--json`."""
    parser.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="print JSON, also for errors"
    )


def finished(
    parser: P,
    run: Run,
    *,
    gives_up: bool = True,
) -> P:
    """Add what every command takes, `--json` and where to work, and the function that runs it."""
    as_json(parser)
    connecting(parser, gives_up=gives_up)
    parser.set_defaults(run=run)
    return parser


def paging(parser: argparse.ArgumentParser) -> None:
    """Add how much of a listing to show."""
    parser.add_argument(
        "--limit",
        type=count_to(10_000),
        metavar="N",
        default=LIMIT_DEFAULT,
        help=f"at most this many (default {LIMIT_DEFAULT})",
    )
    parser.add_argument("--cursor", metavar="CURSOR", help="continue where an earlier listing ended")


def wants_json(args: argparse.Namespace) -> bool:
    """Whether the caller is a program."""
    return bool(getattr(args, "json", False))


def makes_store(args: argparse.Namespace) -> bool:
    """Whether the first write may make the store: one that `--store` names has to be there."""
    return given(args, "store") is None


def given(args: argparse.Namespace, name: str) -> str | None:
    """A shared option's value, before or after the command's name; None if it was left out."""
    value: object = getattr(args, name, None)
    return str(value) if value else None


def login_of(args: argparse.Namespace) -> Login | None:
    """The login that named the server; None if something else did."""
    return getattr(args, "login", None)


PRIORITIES = ("low", "normal", "high", "critical")


def describing(parser: Parser) -> None:
    """Add what the policy looks at, beside topic and payload."""
    parser.add_argument("--env", help="where it happens, such as production")
    parser.add_argument("--channel", help="which way it goes, such as external")
    parser.add_argument(
        "--label",
        type=pair,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a fact about the action; repeatable",
    )
    parser.add_argument(
        "--risk",
        action="append",
        default=[],
        metavar="WORD",
        help="a risk of the action, such as money; repeatable",
    )
    parser.add_argument("--priority", choices=PRIORITIES, metavar="WORD", help=", ".join(PRIORITIES))


def described(args: Namespace) -> dict[str, Any]:
    """What was given of it, as fields of a job."""
    fields = {
        "env": args.env,
        "channel": args.channel,
        "labels": dict(args.label) or None,
        "risk": args.risk or None,
        "priority": args.priority,
    }
    return {name: value for name, value in fields.items() if value is not None}

"""`interlock completion bash|zsh|fish`: a script made from the commands' own parsers.

The script is static: pressing TAB starts no Python.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple, cast

from interlock.cli.catalogue import entries
from interlock.cli.exits import Exit
from interlock.cli.options import GLOBAL_FLAGS, GLOBAL_OPTIONS, Parser

SHELLS = ("bash", "zsh", "fish")


class Option(NamedTuple):
    """One option of a command."""

    flag: str
    help: str
    takes_value: bool
    choices: tuple[str, ...]


class Known(NamedTuple):
    """One command or verb: how it is reached, and what may follow."""

    path: tuple[str, ...]
    summary: str
    options: tuple[Option, ...]
    choices: tuple[str, ...]  # of its first argument
    verbs: tuple[Known, ...]


def declare_completion() -> Parser:
    """The options of `interlock completion`."""
    parser = Parser(
        "interlock completion",
        description="Print a script that lets the shell complete commands, options and their values.",
        examples=(
            'eval "$(interlock completion bash)"          # in ~/.bashrc',
            'eval "$(interlock completion zsh)"           # in ~/.zshrc, after compinit',
            "interlock completion fish > ~/.config/fish/completions/interlock.fish",
        ),
    )
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(run=run_completion)
    return parser


def run_completion(args: argparse.Namespace) -> int:
    """Print the script."""
    from interlock.cli import completion_scripts as scripts
    from interlock.cli.output import say

    write = {"bash": scripts.bash, "zsh": scripts.zsh, "fish": scripts.fish}[args.shell]
    say(write(known_commands(), global_options()))
    return Exit.DONE


def known_commands() -> tuple[Known, ...]:
    """Every command with its options, read from the parsers that run them."""
    from interlock.cli.main import parser_of

    return tuple(_known(parser_of(entry), (entry.name,), entry.summary) for entry in entries())


def global_options() -> tuple[Option, ...]:
    """What may stand before the command's name."""
    return tuple(Option(flag, "", flag in GLOBAL_OPTIONS, ()) for flag in (*GLOBAL_OPTIONS, *GLOBAL_FLAGS))


def _known(parser: argparse.ArgumentParser, path: tuple[str, ...], summary: str) -> Known:
    actions = parser._actions  # noqa: SLF001  # argparse offers no other way to list them
    first = next((action for action in actions if not action.option_strings), None)
    verbs = _verbs(first, path)
    return Known(
        path=path,
        summary=summary,
        options=tuple(option for action in actions for option in _options(action)),
        choices=() if verbs or first is None else _choices(first),
        verbs=verbs,
    )


def _verbs(action: argparse.Action | None, path: tuple[str, ...]) -> tuple[Known, ...]:
    if action is None or not isinstance(action.choices, dict):
        return ()
    parsers = cast("dict[str, argparse.ArgumentParser]", action.choices)
    return tuple(_known(parser, (*path, name), parser.description or "") for name, parser in parsers.items())


def _options(action: argparse.Action) -> Iterator[Option]:
    help_text = (action.help or "").replace("%%", "%").partition(" [")[0]
    for flag in action.option_strings:
        if flag.startswith("--"):
            yield Option(flag, help_text, action.nargs != 0, _choices(action))


def _choices(action: argparse.Action) -> tuple[str, ...]:
    return tuple(str(choice) for choice in action.choices) if action.choices else ()

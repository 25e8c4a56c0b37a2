"""`interlock completion bash|zsh|fish`: a completion script made from the commands' own parsers.

The script is static: pressing TAB starts no Python.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

from interlock.cli.exits import Exit
from interlock.cli.main import entries, parser_of
from interlock.cli.options import GLOBAL_FLAGS, GLOBAL_OPTIONS, Parser
from interlock.cli.output import say

_BASH = """\
# bash completion for interlock; load it with: eval "$(interlock completion bash)"
_interlock() {{
    local word skip="" command="" verb=""
    local current="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}"
    COMPREPLY=()
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        if [[ -n $skip ]]; then skip=""; continue; fi
        case "$word" in
            {taking_value}) skip=1 ;;
            -*) ;;
            *) if [[ -z $command ]]; then command="$word"; elif [[ -z $verb ]]; then verb="$word"; fi ;;
        esac
    done
    local options="" words=""
    case "$command $verb" in
        " ") words="{commands}"; options="{globals} --help --version" ;;
{cases}
    esac
    case "$command $before" in
{values}
    esac
    if [[ -n $skip ]]; then return; fi
    if [[ "$current" == -* ]]; then words="$options"; fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _interlock interlock"""

_ZSH = """\
#compdef interlock
# zsh completion for interlock; load it with: eval "$(interlock completion zsh)"
_interlock() {{
    local -a known
    if (( CURRENT == 2 )); then
        known=({commands})
        _describe command known
        return
    fi
    case "$words[2]" in
{cases}
    esac
}}
compdef _interlock interlock"""


def bash(commands: Sequence[Known], before: Sequence[Option]) -> str:
    """A script for bash."""
    flags = sorted(
        {option.flag for known in _all(commands) for option in known.options if option.takes_value}
    )
    return _BASH.format(
        taking_value="|".join(flags),
        commands=" ".join(known.path[0] for known in commands),
        globals=" ".join(option.flag for option in before),
        cases="\n".join(line for known in commands for line in _bash_cases(known)),
        values="\n".join(_bash_values(commands)),
    )


def fish(commands: Sequence[Known], before: Sequence[Option]) -> str:
    """A script for fish."""
    lines = ["# fish completion for interlock", "complete -c interlock -f"]
    lines += [_fish_option(option, "-n __fish_use_subcommand") for option in before]
    for known in commands:
        summary = _quoted(known.summary)
        lines.append(f"complete -c interlock -n __fish_use_subcommand -a {known.path[0]} -d {summary}")
    for known in _all(commands):
        where = f"-n {_quoted(_fish_condition(known))}"
        words = [*(verb.path[-1] for verb in known.verbs), *known.choices]
        lines.append(
            f"complete -c interlock {where} " + (f"-a {_quoted(' '.join(words))}" if words else "-F")
        )
        lines += [_fish_option(option, where) for option in known.options]
    return "\n".join(lines)


def zsh(commands: Sequence[Known], before: Sequence[Option]) -> str:
    """A script for zsh. (What may stand before the command's name is offered after it.)"""
    names = " ".join(_quoted(f"{known.path[0]}:{known.summary}") for known in commands)
    return _ZSH.format(commands=names, cases="\n".join(_zsh_case(known) for known in commands))


def _all(commands: Sequence[Known]) -> Iterator[Known]:
    for known in commands:
        yield known
        yield from _all(known.verbs)


def _bash_cases(known: Known) -> Iterator[str]:
    command = known.path[0]
    if not known.verbs:  # any argument may stand where a verb would
        yield _bash_case(f'"{command} "*', known)
        return
    yield _bash_case(f'"{command} "', known)
    yield from (_bash_case(f'"{command} {verb.path[-1]}"', verb) for verb in known.verbs)
    # A word that is none of its verbs stands for `show` and that word.
    yield from (_bash_case(f'"{command} "*', verb) for verb in known.verbs if verb.path[-1] == "show")


def _bash_case(pattern: str, known: Known) -> str:
    words = " ".join([*(verb.path[-1] for verb in known.verbs), *known.choices])
    flags = " ".join(option.flag for option in known.options)
    return f'        {pattern}) words="{words}"; options="{flags}" ;;'


def _bash_values(commands: Sequence[Known]) -> Iterator[str]:
    lines = {
        f'        "{known.path[0]} {option.flag}") words="{" ".join(option.choices)}"; skip="" ;;'
        for known in _all(commands)
        for option in known.options
        if option.choices
    }
    return iter(sorted(lines))


def _fish_condition(known: Known) -> str:
    seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in known.path)
    if not known.verbs:
        return seen
    return f"{seen}; and not __fish_seen_subcommand_from {' '.join(verb.path[-1] for verb in known.verbs)}"


def _fish_option(option: Option, where: str) -> str:
    value = " -r" if option.takes_value else ""
    choices = f" -f -a {_quoted(' '.join(option.choices))}" if option.choices else " -F" if value else ""
    return f"complete -c interlock {where} -l {option.flag[2:]}{value}{choices} -d {_quoted(option.help)}"


def _zsh_case(known: Known) -> str:
    if not known.verbs:
        return f"        {known.path[0]}) shift words; (( CURRENT-- )); {_zsh_arguments(known)} ;;"
    names = " ".join(_quoted(f"{verb.path[-1]}:{verb.summary}") for verb in known.verbs)
    shown = [verb for verb in known.verbs if verb.path[-1] == "show"]
    cases = [*((verb.path[-1], verb) for verb in known.verbs), *(("*", verb) for verb in shown)]
    inner = "\n".join(f"                {pattern}) {_zsh_arguments(verb)} ;;" for pattern, verb in cases)
    return (
        f"        {known.path[0]})\n"
        f"            if (( CURRENT == 3 )); then known=({names}); _describe verb known; return; fi\n"
        f"            shift 2 words; (( CURRENT -= 2 ))\n"
        f'            case "$words[1]" in\n{inner}\n            esac ;;'
    )


def _zsh_arguments(known: Known) -> str:
    specs = [_zsh_spec(option) for option in known.options]
    first = f":word:({' '.join(known.choices)})" if known.choices else "*:file:_files"
    return " ".join(["_arguments", *specs, _quoted(first)])


def _zsh_spec(option: Option) -> str:
    text = option.help.replace("[", "(").replace("]", ")").replace(":", " ")
    values = f"({' '.join(option.choices)})" if option.choices else "_files"
    return _quoted(f"{option.flag}[{text}]" + (f":value:{values}" if option.takes_value else ""))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


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

    write = {"bash": bash, "zsh": zsh, "fish": fish}[args.shell]
    say(write(known_commands(), global_options()))
    return Exit.DONE


def known_commands() -> tuple[Known, ...]:
    """Every command with its options, read from the parsers that run them."""
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

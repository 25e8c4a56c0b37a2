"""`--help` says what a manual page would, and its examples are commands that parse."""

from __future__ import annotations

import argparse
import re
import shlex
from argparse import Namespace
from collections.abc import Iterator

import pytest

from interlock.cli.main import Entry, entries, find, main, parser_of
from interlock.cli.manual import related_to
from interlock.cli.options import Parser
from tests.cli.terminal import Terminal

# Files that examples name, as little as each needs to be.
FILES = {"payment.json": "{}", "m.json": "{}", "p.json": "{}", "report.txt": "x"}


def parsers() -> Iterator[tuple[Entry, Parser]]:
    """Every command and every verb."""
    for entry in entries():
        parser = parser_of(entry)
        yield entry, parser
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                yield from ((entry, verb) for verb in action.choices.values())


PARSERS = [pytest.param(entry, parser, id=parser.prog) for entry, parser in parsers()]


@pytest.mark.parametrize(("entry", "parser"), PARSERS)
def test_help_has_every_part_of_a_manual_page(entry: Entry, parser: Parser) -> None:
    shown = parser.format_help()
    assert parser.description
    assert parser.description.rstrip().endswith((".", ")"))
    for part in ("usage: interlock ", "examples:\n  ", "exit codes", "see also: interlock "):
        assert part in shown, f"no {part!r} in the help of {parser.prog}"
    if "--url URL" in shown and parser.prog not in (
        "interlock login",
        "interlock open",
        "interlock drill outage",
    ):
        assert "environment:\n  INTERLOCK_URL" in shown or "[INTERLOCK_URL" in shown


@pytest.mark.parametrize(("entry", "parser"), PARSERS)
def test_examples_of_help_are_commands_that_parse(
    terminal: Terminal, entry: Entry, parser: Parser, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in FILES.items():
        terminal.file(name, text)
    monkeypatch.setattr("interlock.cli.values.read_bytes", lambda path: b"{}")
    monkeypatch.setattr("interlock.cli.values._stdin", lambda: b"{}")
    for example in _examples(parser):
        command, words = _words(example)
        args = parser_of(command).parse_args(words, Namespace())
        assert callable(args.run), example


def test_related_commands_exist() -> None:
    assert [each for entry in entries() for each in related_to(entry.name) if not find(each.split()[0])] == []


@pytest.mark.parametrize(("entry", "parser"), PARSERS)
def test_help_fits_a_terminal_of_eighty_columns(
    entry: Entry, parser: Parser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = parser.format_help().partition("examples:")
    wide = [line for line in (text[0] + text[2].partition("\n\n")[2]).splitlines() if len(line) > 80]
    assert wide == []


def test_the_first_page_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert [entry.name for entry in entries() if f"\n  {entry.name} " not in shown] == []
    assert max(map(len, shown.splitlines())) <= 110


def _examples(parser: Parser) -> list[str]:
    block = parser.format_help().partition("examples:\n")[2].partition("\n\n")[0]
    return [line.strip() for line in block.splitlines()]


def _words(example: str) -> tuple[Entry, list[str]]:
    """The command of an example as its parser gets it: without what belongs to the shell."""
    ours = re.split(r" [<>|] | && | {2,}#", example)[0].partition("interlock ")[2]
    is_inside = example.partition("interlock ")[0].endswith("$(")
    words = shlex.split(re.sub(r"\)\"?$", "", ours) if is_inside else ours)
    entry = find(words[0])
    assert entry, example
    return entry, words[1:]


def test_a_description_is_wrapped_and_examples_are_not(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    main(["submit", "--help"])
    shown = capsys.readouterr().out
    about = shown.partition("\n\n")[2].partition("\n\n")[0]
    assert all(len(line) <= 60 for line in about.splitlines())
    assert "submit repo.merge --payload - --target repo:billing@4f2a --key merge-4f2a < m.json\n" in shown

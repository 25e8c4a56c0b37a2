"""The front door: help, unknown words, options before the command, and a start that imports little."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from interlock.cli.catalogue import entries
from interlock.cli.completion import Known, known_commands
from tests.cli.terminal import Terminal

HEAVY = ("cyclopts", "httpx2", "rich", "httptools", "uvloop")
IMPORTED = """\
import sys
from interlock.cli.main import main
code = main(sys.argv[2:])
print([name for name in sys.argv[1].split(",") if name in sys.modules], file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",), ("help",)])
def test_the_first_page_lists_every_command(terminal: Terminal, words: tuple[str, ...]) -> None:
    said = terminal(*words)
    assert said.code == 0
    for entry in entries():
        assert f"  {entry.name:<12}{entry.summary}" in said.out


@pytest.mark.parametrize("name", [entry.name for entry in entries()])
def test_every_command_explains_itself(terminal: Terminal, name: str) -> None:
    said = terminal(name, "--help")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"usage: interlock {name}")
    assert terminal("help", name).out == said.out


@pytest.mark.parametrize(
    "verb", [verb.path for known in known_commands() for verb in known.verbs], ids=" ".join
)
def test_every_verb_explains_itself(terminal: Terminal, verb: tuple[str, str]) -> None:
    said = terminal(*verb, "--help")
    assert (said.code, said.out.startswith(f"usage: interlock {' '.join(verb)}")) == (0, True)


@pytest.mark.parametrize("known", known_commands(), ids=lambda known: " ".join(known.path))
def test_every_page_of_help_says_what_the_command_is_for(known: Known) -> None:
    assert [verb.path for verb in known.verbs if not verb.summary] == []


def test_a_misspelt_command_is_answered_with_the_closest(terminal: Terminal) -> None:
    said = terminal("aprove", "job_1")
    assert said.code == 2
    assert "did you mean `interlock approve`?" in said.err
    assert "'nonsense' is not a command; `interlock --help`" in terminal("nonsense").err


def test_an_abbreviated_option_is_not_guessed(terminal: Terminal) -> None:
    assert terminal("jobs", "--sto", "memory:").code == 2


def test_an_option_without_its_value_is_wrong_usage(terminal: Terminal) -> None:
    assert terminal("--store").code == 2
    assert terminal("--nonsense", "jobs").code == 2


def test_shared_options_may_stand_before_the_command(house: Terminal) -> None:
    store = f"sqlite:///{house.folder / '.interlock' / 'interlock.db'}"
    key = house.key("payer", "--kind", "agent", "--roles", "submit")
    house.use(INTERLOCK_STORE="memory:")
    said = house("--store", store, f"--key={key}", "--json", "submit", "knowledge.read", "--key", "an-intent")
    assert said.json["submitted_by"] == "payer"
    assert said.json["id"] in house("--store", store, "jobs").out


def test_a_server_and_a_store_together_are_wrong_usage(terminal: Terminal) -> None:
    said = terminal("jobs", "--url", "http://127.0.0.1:1", "--store", "memory:")
    assert (said.code, "not both" in said.err) == (2, True)


def test_the_version_is_printed_either_way(terminal: Terminal) -> None:
    assert terminal("version").out == terminal("--version").out == terminal("-V").out
    assert terminal("version", "--json").json["version"] in terminal("version").out


def test_the_package_and_the_module_are_the_same_command(terminal: Terminal) -> None:
    package = subprocess.run([sys.executable, "-m", "interlock", "version"], capture_output=True, text=True)
    assert package.stdout == terminal.process("version").out


@pytest.mark.parametrize("words", [("version",), ("jobs",), ("approvals",), ("submit", "knowledge.read")])
def test_no_command_imports_what_it_does_not_use(house: Terminal, words: tuple[str, ...]) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", IMPORTED, ",".join(HEAVY), *words],
        capture_output=True,
        text=True,
        cwd=house.folder,
        check=True,
    )
    assert ended.stderr == "[]\n"


def test_the_front_door_alone_imports_no_third_party(terminal: Terminal) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", IMPORTED, "msgspec,apsw,yaml,asyncio,typing_extensions", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stderr == "[]\n"


def test_a_reader_who_left_is_no_crash(house: Terminal) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [sys.executable, "-m", "interlock.cli.main", "jobs"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        cwd=house.folder,
    )
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (1, "")


def test_a_terminal_that_cannot_show_a_character_is_no_crash(house: Terminal) -> None:
    job = house(
        "submit", "finance.payment.execute", "--payload", '{"amount_cents": 5, "to": "Zoë"}', "--json"
    ).json
    said = house.process("job", job["id"], env={"PYTHONIOENCODING": "ascii"})
    assert (said.code, '"to": "Zo\\xeb"' in said.out) == (0, True)

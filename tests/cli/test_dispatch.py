"""The front door: help, unknown words, options before the command, and a start that imports little."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock.cli.completion import Known, known_commands
from interlock.cli.main import entries
from tests.cli.terminal import Terminal
from tests.harness.server import clean_env

HEAVY = ("cyclopts", "httpx2", "rich", "granian")
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
        assert f"  {entry.name:<14}{entry.summary}" in said.out


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


def test_wrong_usage_is_told_in_one_line_with_what_was_probably_meant(terminal: Terminal) -> None:
    def complaint(*words: str) -> str:
        said = terminal(*words)
        assert (said.code, said.out, said.err.count("\n")) == (2, "", 1), said
        return said.err

    assert complaint("submit") == "interlock: missing: TOPIC; see `interlock submit --help`\n"
    assert "one of create, list, show, revoke or KEY; see `interlock key --help`" in complaint("key")
    assert "did you mean apply? See `interlock policy --help`" in complaint("policy", "aply", "p.yaml")
    assert "unrecognized arguments: --sate pending; did you mean --state?" in complaint(
        "approvals", "--sate", "pending"
    )
    assert "argument --kind: 'human' is not valid; use one of person, agent, worker, service" in complaint(
        "key", "create", "bob", "--kind", "human", "--roles", "review"
    )


@pytest.mark.parametrize(
    "words",
    [
        ("lease", "acquire", "r", "--ttl", "0s"),
        ("run", "start", "w", "--ttl", "0"),
        ("effect", "begin", "pay:1", "--request-hash", "sha256:0", "--ttl", "0s"),
        ("grant", "deploy", "--uses", "0"),
        ("submit", "a.b", "--max-attempts", "101"),
    ],
)
def test_a_number_that_cannot_be_is_refused_under_its_options_name(
    terminal: Terminal, words: tuple[str, ...]
) -> None:
    said = terminal(*words)
    assert (said.code, f"argument {words[-2]}: {words[-1]!r} is no" in said.err) == (2, True), said.err


@pytest.mark.parametrize("words", [("submit", "--json"), ("--json", "submit"), ("policy", "aply", "--json")])
def test_wrong_usage_is_json_for_whoever_asks_for_it(terminal: Terminal, words: tuple[str, ...]) -> None:
    said = terminal(*words)
    assert (said.code, said.problem["code"]) == (2, "usage")


def test_what_comes_after_two_dashes_asks_for_nothing(terminal: Terminal) -> None:
    said = terminal("exec", "--wat", "--", "echo", "--json")
    assert (said.code, said.err.startswith("interlock: ")) == (2, True), said.err


def test_help_is_asked_for_before_or_after_the_words_it_is_about(terminal: Terminal) -> None:
    for words in (("policy",), ("policy", "test"), ("exec",)):
        before, after = terminal("help", *words), terminal(*words, "--help")
        assert (before.code, before.out) == (0, after.out)
    assert terminal("help", "help").out == terminal("--help").out
    unknown = terminal("help", "polcy")
    assert (unknown.code, "did you mean `interlock policy`?" in unknown.err) == (2, True)


def test_an_abbreviated_option_is_not_guessed(terminal: Terminal) -> None:
    assert terminal("jobs", "--sto", "memory:").code == 2


def test_an_option_without_its_value_is_wrong_usage(terminal: Terminal) -> None:
    assert terminal("--store").code == 2
    assert terminal("--nonsense", "jobs").code == 2


def test_shared_options_may_stand_before_the_command(policy_terminal: Terminal) -> None:
    store = f"sqlite:///{policy_terminal.folder / '.interlock' / 'interlock.db'}"
    key = policy_terminal.key("payer", "--kind", "agent", "--roles", "submit")
    policy_terminal.use(INTERLOCK_STORE="memory:")
    said = policy_terminal(
        "--store", store, f"--api-key={key}", "--json", "submit", "knowledge.read", "--key", "an-intent"
    )
    assert said.json["submitted_by"] == "payer"
    assert said.json["id"] in policy_terminal("--store", store, "jobs").out


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
def test_no_command_imports_what_it_does_not_use(policy_terminal: Terminal, words: tuple[str, ...]) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", IMPORTED, ",".join(HEAVY), *words],
        capture_output=True,
        text=True,
        cwd=policy_terminal.folder,
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


def test_a_reader_who_left_is_no_crash(policy_terminal: Terminal) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [sys.executable, "-m", "interlock.cli.main", "jobs"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        cwd=policy_terminal.folder,
    )
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (1, "")


def test_a_terminal_that_cannot_show_a_character_is_no_crash(policy_terminal: Terminal) -> None:
    job = policy_terminal(
        "submit", "finance.payment.execute", "--payload", '{"amount_cents": 5, "to": "Zoë"}', "--json"
    ).json
    said = policy_terminal.process("job", job["id"], env={"PYTHONIOENCODING": "ascii"})
    assert (said.code, '"to": "Zo\\xeb"' in said.out) == (0, True)


def test_a_full_disk_under_the_answer_is_told_as_such(policy_terminal: Terminal) -> None:
    for words in (
        ("submit", "finance.payment.execute", "--payload", '{"amount_cents": 5}'),
        ("jobs", "--json"),
    ):
        with Path("/dev/full").open("w") as full:
            ended = _run(policy_terminal, words, stdout=full)
        assert (ended.returncode, ended.stderr.count("\n")) == (1, 1), ended.stderr
        assert "the answer could not be written: No space left on device" in ended.stderr
    assert len(policy_terminal("jobs", "--json").json["items"]) == 1


def test_a_closed_stdin_is_an_empty_one(policy_terminal: Terminal) -> None:
    ended = _run(
        policy_terminal, ("submit", "knowledge.read", "--payload", "-"), preexec_fn=lambda: os.close(0)
    )
    assert (ended.returncode, "argument --payload: not JSON" in ended.stderr) == (2, True), ended.stderr


GARBLED = "\udcff"  # how Python spells a byte that is no text


@pytest.mark.parametrize(
    "words",
    [
        ("job", GARBLED),
        ("grant", GARBLED),
        ("jobs", "--cursor", GARBLED),
        ("submit", "knowledge.read", "--key", GARBLED),
        ("submit", "knowledge.read", "--payload", f'{{"a": "{GARBLED}"}}'),
        ("--store", f"sqlite:///{GARBLED}", "jobs"),
        (GARBLED,),
    ],
)
def test_a_word_that_is_no_text_is_wrong_usage_and_no_traceback(
    policy_terminal: Terminal, words: tuple[str, ...]
) -> None:
    said = policy_terminal(*words)
    assert (said.code, "is not text in UTF-8" in said.err) == (2, True), said.err


def test_a_file_may_have_a_name_that_is_no_text(policy_terminal: Terminal) -> None:
    (policy_terminal.folder / f"{GARBLED}.json").write_text('{"page": 7}')
    assert policy_terminal("submit", "knowledge.read", "--payload", f"@{GARBLED}.json").code == 0


def test_nobody_becomes_somebody_else_by_saying_so_in_the_environment(policy_terminal: Terminal) -> None:
    me = policy_terminal.submit()["submitted_by"]
    policy_terminal.use(LOGNAME="ann", USER="ann", LNAME="ann", USERNAME="ann")
    assert policy_terminal.submit()["submitted_by"] == me
    assert policy_terminal("exec", "--", "true").code == 3
    assert policy_terminal("audit", "--actor", me, "--json").json["items"][0]["subject"] != ""
    assert policy_terminal("audit", "--actor", "local:ann", "--json").json["items"] == []


def test_a_user_without_a_name_acts_under_a_number(
    policy_terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 2_000_000_001)
    assert policy_terminal.submit()["submitted_by"] == "local:2000000001"
    assert policy_terminal("exec", "--", "true").code == 3
    assert (
        policy_terminal("audit", "--actor", "local:2000000001", "--json").json["items"][0]["action"]
        == "submit"
    )


@pytest.mark.parametrize(
    "words",
    [
        ("effect", "resolve", "pay:1", "--nonsense"),
        ("policy", "check", "a", "b"),
        ("key", "list", "--limit=2"),
    ],
)
def test_what_a_verb_does_not_take_is_told_with_the_usage_of_that_verb(
    terminal: Terminal, words: tuple[str, ...]
) -> None:
    said = terminal(*words)
    assert (said.code, f"see `interlock {words[0]} {words[1]} --help`" in said.err) == (2, True), said.err


def _run(
    policy_terminal: Terminal, words: tuple[str, ...], **streams: Any
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "interlock.cli.main", *words]
    streams = {"stdout": subprocess.PIPE, **streams}
    return subprocess.run(
        command, stderr=subprocess.PIPE, text=True, cwd=policy_terminal.folder, env=clean_env(), **streams
    )

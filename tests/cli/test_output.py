"""How things look: aligned, within the terminal, coloured only where somebody sees it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from interlock.cli.output import (
    Cell,
    Column,
    counted,
    lasting,
    pretty,
    safe,
    say_fields,
    say_table,
    text_width,
    warn,
    when,
)
from interlock.kernel.codec.visible import is_visible
from tests.cli.terminal import Terminal
from tests.harness.server import clean_env

COLUMNS = (Column("ID"), Column("TOPIC", flexible=True), Column("ENV", optional=True), Column("WHEN"))
ROWS = [
    ("job_1234567890", "finance.payment.execute", "production", "1m ago"),
    ("job_2", "a.b", "-", Cell("now", "green")),
]


def test_columns_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    say_table(COLUMNS, ROWS)
    lines = capsys.readouterr().out.splitlines()
    assert [line.index(word) for line, word in zip(lines, ("WHEN", "1m ago", "now"), strict=True)] == [53] * 3
    assert not any(line.endswith(" ") for line in lines)


@pytest.mark.parametrize("width", [50, 45, 40, 36])
def test_a_narrow_terminal_loses_the_optional_and_cuts_the_long(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    say_table(COLUMNS, ROWS)
    out = capsys.readouterr().out
    assert all(text_width(line) <= width for line in out.splitlines())
    assert "job_1234567890" in out
    assert "ENV" not in out


def test_what_may_be_left_out_is_cut_only_as_far_as_it_can_be_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = (Column("ID"), Column("DETAILS", flexible=True, optional=True))
    for width, shown in ((60, True), (42, True), (38, False)):
        monkeypatch.setenv("COLUMNS", str(width))
        say_table(columns, [("job_1234567890", "d" * 100)])
        out = capsys.readouterr().out
        assert ("DETAILS" in out) is shown
        assert all(text_width(line) <= width for line in out.splitlines())


def test_an_id_is_never_cut(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "10")
    say_table(COLUMNS, ROWS)
    assert "job_1234567890" in capsys.readouterr().out


def test_wide_characters_keep_columns_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    say_table((Column("A"), Column("B")), [("日本", "x"), ("ab", "x")])
    first, second = capsys.readouterr().out.splitlines()[1:]
    assert text_width(first) == text_width(second)


@pytest.mark.parametrize(
    ("text", "width"), [("e\u0301", 1), ("\u2764\ufe0f", 1), ("कु", 1), ("日本", 4), ("ab", 2)]
)
def test_marks_take_no_column_of_their_own(text: str, width: int) -> None:
    assert text_width(text) == width


@pytest.mark.parametrize(
    ("env", "colours"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_a_terminal_shows_colours_unless_asked_not_to(
    policy_terminal: Terminal, env: dict[str, str], colours: bool
) -> None:
    policy_terminal.submit()
    assert ("\x1b[" in _on_a_terminal(policy_terminal, {"TERM": "xterm", **env}, "jobs")) is colours


def test_a_pipe_gets_no_colours_and_whole_lines(policy_terminal: Terminal) -> None:
    job = policy_terminal.submit("knowledge.read", 1, "--env", "e" * 200)
    said = policy_terminal.process("jobs", env={"TERM": "xterm"})
    assert "\x1b[" not in said.out
    assert "e" * 200 in said.out
    assert job["id"] in said.out


def test_json_for_programs_is_one_line(policy_terminal: Terminal) -> None:
    policy_terminal.submit()
    for words in (
        ("jobs",),
        ("approvals",),
        ("audit",),
        ("key", "list"),
        ("policy", "snapshots"),
        ("doctor",),
    ):
        said = policy_terminal(*words, "--json")
        assert said.out.count("\n") == 1
        assert isinstance(said.json, dict)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0s"), (1, "1s"), (59.7, "1m"), (150, "2m"), (3_600, "1h"), (86_399, "23h 59m"), (11_100, "3h 5m"),
     (90_000, "1d 1h"), (864_000, "10d"), (3_456_000, "40d")],
)  # fmt: skip
def test_durations_read_as_people_say_them(seconds: float, words: str) -> None:
    assert lasting(seconds) == words


def test_moments_are_told_from_now() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert when(now - timedelta(minutes=12), now) == "12m ago"
    assert when(now + timedelta(hours=3), now) == "in 3h"
    assert when(now, now) == "now"
    assert when(None) == "-"


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[31m",
        "\u202e",
        "\u200b",
        "\x00",
        "\r",
        "\x9b",
        "\U000e0041",
        "\ud800",
        "\u3164",
        "\u2800",
        "\uffa0",
        "\ufe0f",
    ],
)
def test_what_cannot_be_seen_is_spelled_out(text: str) -> None:
    shown = safe(f"a{text}b")
    assert is_visible(shown)
    assert shown.startswith("a\\u")
    assert shown.endswith("b")


def test_a_shown_payload_is_still_json() -> None:
    payload = {"to": "Zoë \u202e\x1b日本\U000e0041", "n": [1, 2.5, None, True]}
    assert json.loads("\n".join(pretty(payload))) == payload


def test_no_text_in_a_payload_begins_a_line_of_its_own() -> None:
    assert len(pretty({"note": 'x\u2028"amount_cents": 5\x85\x0b\x1cy'})) == 3


def test_no_table_and_no_page_shows_what_cannot_be_seen(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "a\x1b[2K\r\nb\u202e\u3164"
    say_table((Column("A"), Column("B")), [(hostile, Cell(hostile, "red"))])
    say_fields([("reason", hostile), ("state", Cell(hostile))])
    warn(hostile)
    said = capsys.readouterr()
    assert [is_visible(line) for line in said.out.splitlines()] == [True] * 4
    assert all(map(is_visible, said.err.splitlines()))


def test_json_stays_json_on_a_terminal_that_knows_no_other_alphabet(policy_terminal: Terminal) -> None:
    payload = {"amount_cents": 5, "to": "Zoë \U0001f600\x9b31m"}
    job = policy_terminal(
        "submit", "finance.payment.execute", "--payload", json.dumps(payload), "--json"
    ).json
    for encoding in ("ascii", "latin-1", "utf-8"):
        said = policy_terminal.process("job", job["id"], "--json", env={"PYTHONIOENCODING": encoding})
        assert said.json["payload"] == payload
        assert "\x9b" not in said.out


def test_counting_knows_one_from_many() -> None:
    assert (counted(1, "vote"), counted(2, "vote"), counted(0, "person", "people")) == (
        "1 vote",
        "2 votes",
        "0 people",
    )


def _on_a_terminal(policy_terminal: Terminal, env: dict[str, str], *words: str) -> str:
    """What a command prints on a pseudo-terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "interlock.cli.main", *words],
        stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, cwd=policy_terminal.folder, env=clean_env(env),
    )  # fmt: skip
    os.close(theirs)
    chunks: list[bytes] = []
    try:
        while chunk := os.read(ours, 4096):
            chunks.append(chunk)
    except OSError:  # how Linux says that the other side has hung up
        pass
    finally:
        os.close(ours)
    process.wait(60)
    return b"".join(chunks).decode()

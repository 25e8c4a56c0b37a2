"""Progress of long work: one line on a terminal, lines elsewhere, nothing with `--quiet` or `--json`."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sqlite3
from pathlib import Path

import apsw
import pytest

from interlock.cli.progress import Progress
from interlock.store.catalogue import migrations
from tests.cli.screen import Screen
from tests.cli.terminal import POLICY, Terminal

UTF8 = {"PYTHONUTF8": "1"}
SMALL_DRILL = ("drill", "approvals", "--people", "2")
# What each kind of long work says of itself, and what it needs to be there.
LONG = (
    ("doctor",),
    ("policy", "simulate", "policy.yaml", "--last", "300"),
    ("drill", "retries", "--clients", "5", "--outage", "10s"),
    SMALL_DRILL,
)


class Clock:
    """A clock that stands still unless it is told how much time passes."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def folder(policy_terminal: Terminal) -> Path:
    """A folder with a policy file, and with a store that has more jobs than are compared at once."""
    for _ in range(3):
        policy_terminal.submit()
    _multiply_jobs(policy_terminal.folder, 250)
    return policy_terminal.folder


def _multiply_jobs(folder: Path, count: int) -> None:
    """Copy the newest job under ids that are older than any."""
    with sqlite3.connect(folder / ".interlock" / "interlock.db") as database:
        database.row_factory = sqlite3.Row
        row = dict(database.execute("SELECT * FROM jobs ORDER BY id DESC LIMIT 1").fetchone())
        for number in range(count):
            job_id = f"job_{number:032x}"
            copied = row | {"id": job_id, "body": str(row["body"]).replace(row["id"], job_id)}
            names = [name for name in copied if name != "uid"]
            marks = ", ".join(f":{name}" for name in names)
            database.execute(f"INSERT INTO jobs ({', '.join(names)}) VALUES ({marks})", copied)


@pytest.fixture
def older(terminal: Terminal) -> Path:
    """A folder with a store as an earlier version left it."""
    place = terminal.folder / ".interlock"
    place.mkdir()
    database = apsw.Connection(str(place / "interlock.db"))
    for migration in migrations("sqlite")[:20]:
        database.execute(migration.sql)
    database.execute("PRAGMA user_version = 20")
    database.close()
    return terminal.folder


@pytest.mark.parametrize("words", LONG, ids=lambda words: " ".join(words[:2]))
def test_on_a_terminal_long_work_is_one_line_that_is_gone_at_the_end(
    folder: Path, words: tuple[str, ...]
) -> None:
    with Screen(folder, *words, env=UTF8) as screen:
        code, shown = screen.end()
    about = "doctor" if words == ("doctor",) else " ".join(words[:2])
    assert code in (0, 1), shown
    assert re.search(rf"\r{about}  [█░]{{20}}  \d+ of \d+", shown), shown
    # Each drawing replaces the one before, and what is left of the last is the result.
    drawn, _, result = shown.rpartition("\r\x1b[K")
    assert drawn.count("\n") == 0
    assert about not in result.splitlines()[0] or words[0] == "drill"
    assert "█" not in result.partition("\n")[0]


def _about(words: tuple[str, ...]) -> str:
    return "doctor" if words == ("doctor",) else " ".join(words[:2])


@pytest.mark.parametrize("words", LONG, ids=_about)
def test_into_a_pipe_progress_is_plain_lines_on_stderr(
    policy_terminal: Terminal, folder: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.cli.progress._QUICK_SECONDS", 0)
    said = policy_terminal(*words)
    lines = said.err.splitlines()
    assert lines
    form = rf"{_about(words)}: \d+ of \d+(, about \w[\w ]* left)?: .+"
    assert all(re.fullmatch(form, line) for line in lines), said.err
    assert not re.search(r"[\x1b\r█░]", said.err)
    assert lines[0] not in said.out


def test_a_simulation_in_portions_examines_every_job_once(policy_terminal: Terminal, folder: Path) -> None:
    denies = policy_terminal.file("deny.yaml", "version: v1\ndefault: deny\n")
    found = policy_terminal("policy", "simulate", denies, "--last", "250", "--json").json
    changed = [change["job_id"] for change in found["changes"]]
    assert (found["examined"], found["unchanged"], len(set(changed))) == (250, 0, 250)
    jobs = policy_terminal("jobs", "--limit", "250", "--json").json["items"]
    assert changed == [job["id"] for job in jobs]


def test_work_that_takes_a_while_is_told_to_a_pipe_of_another_process(policy_terminal: Terminal) -> None:
    said = policy_terminal.process("drill", "outage", "--clients", "2", "--lasting", "3s")
    assert re.match(r"drill outage: \d of 7(, about \w+ left)?: the store is blocked\n", said.err), said.err


def test_what_fails_at_once_is_told_in_one_line(terminal: Terminal) -> None:
    terminal.file("policy.yaml", POLICY)
    said = terminal.process("policy", "simulate", "policy.yaml")
    assert (said.code, len(said.err.splitlines())) == (1, 1)


@pytest.mark.parametrize("silent", ["--quiet", "--json"])
@pytest.mark.parametrize("words", LONG, ids=lambda words: " ".join(words[:2]))
def test_nothing_is_shown_if_nobody_wants_it(
    policy_terminal: Terminal, folder: Path, words: tuple[str, ...], silent: str
) -> None:
    said = policy_terminal.process(*words, silent)
    assert said.err == ""
    assert json.loads(said.out) if silent == "--json" else "█" not in said.out.splitlines()[0]


def test_a_store_that_is_brought_up_to_date_is_told_on_a_terminal(older: Path) -> None:
    with Screen(older, "jobs", env=UTF8) as screen:
        code, shown = screen.end()
    assert code == 0
    assert re.search(r"\rupdating the store  ░{20}  0 of \d\d  discussions\x1b\[K", shown), shown
    assert "updating" not in shown.rpartition("\r\x1b[K")[2]


def test_a_store_that_is_brought_up_to_date_says_nothing_to_a_pipe_of_a_short_command(
    terminal: Terminal, older: Path
) -> None:
    said = terminal.process("jobs")
    assert (said.code, said.err) == (0, "")


def test_doctor_tells_of_the_update_as_lines(
    terminal: Terminal, older: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.cli.progress._QUICK_SECONDS", 0)
    said = terminal("doctor")
    assert re.search(r"^updating the store: 0 of \d\d: discussions$", said.err, re.MULTILINE), said.err


def test_a_new_store_is_made_without_a_word(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    with Screen(tmp_path, "policy", "apply", "policy.yaml") as screen:
        code, shown = screen.end()
    assert code == 0
    assert "updating" not in shown


def test_what_is_left_is_estimated_from_what_was_done() -> None:
    clock, stream = Clock(), io.StringIO()
    progress = Progress("soak", stream=stream, now=clock, quick_seconds=0)
    progress("a", 0, 10)
    clock.now = 30.0
    progress("b", 2, 10)
    assert stream.getvalue().splitlines() == ["soak: 0 of 10: a", "soak: 2 of 10, about 2m left: b"]


def test_steps_that_take_unlike_times_give_no_estimate() -> None:
    clock, stream = Clock(), io.StringIO()
    progress = Progress("updating", is_even=False, stream=stream, now=clock, quick_seconds=0)
    progress("a", 0, 10)
    clock.now = 30.0
    progress("b", 2, 10)
    assert "left" not in stream.getvalue()


def test_many_quick_steps_write_few_lines() -> None:
    clock, stream = Clock(), io.StringIO()
    progress = Progress("drill", stream=stream, now=clock, quick_seconds=0)
    for step in range(1000):
        clock.now = step / 100
        progress("calls", step, 1000)
    assert [line.partition(",")[0] for line in stream.getvalue().splitlines()] == [
        "drill: 0 of 1000: calls",
        "drill: 500 of 1000",
    ]


def test_quick_work_writes_no_line() -> None:
    clock, stream = Clock(), io.StringIO()
    progress = Progress("doctor", stream=stream, now=clock)
    for step in range(8):
        clock.now = step / 10
        progress("the store", step, 8)
    assert stream.getvalue() == ""
    clock.now = 1.5
    progress("the store", 7, 8)
    assert stream.getvalue() == "doctor: 7 of 8: the store\n"


def test_a_bar_fits_a_narrow_terminal_and_is_wiped(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    try:
        import fcntl
        import struct
        import termios

        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
        with os.fdopen(theirs, "w") as stream, Progress("drill", stream=stream) as progress:
            progress("something with a name that is far too long for it", 3, 10)
        shown = _rest_of(ours)
    finally:
        os.close(ours)
    line, _, rest = shown.partition("\x1b[K")
    assert len(line.removeprefix("\r")) < 40
    assert line.endswith("…")
    assert rest == "\r\x1b[K"


def _rest_of(terminal: int) -> str:
    """All that was written to a terminal, whose writer is gone."""
    shown = b""
    with contextlib.suppress(OSError):  # which is how a terminal says that nobody writes to it any more
        while content := os.read(terminal, 4096):
            shown += content
    return shown.decode()


def test_a_stream_that_is_gone_does_not_end_the_work() -> None:
    stream = io.StringIO()
    stream.close()
    with pytest.raises(ValueError, match="closed"):
        stream.write("")
    Progress("drill", stream=_Gone())("a", 0, 1)


class _Gone(io.StringIO):
    def write(self, text: str, /) -> int:
        raise BrokenPipeError

"""Where a store is made, found, missed and refused: on purpose, upwards, in one line, and untouched."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.terminal import POLICY, Said, Terminal

READING = [
    ("jobs",),
    ("job", "job_0"),
    ("approvals",),
    ("approval", "job_0"),
    ("whoami",),
    ("approvals", "--watch"),
    ("audit",),
    ("board", "--once"),
    ("grants",),
    ("runs",),
    ("effects",),
    ("conflicts",),
    ("leases",),
    ("targets",),
    ("workflows",),
    ("events",),
    ("webhooks",),
    ("limits",),
    ("key", "list"),
    ("keys",),
    ("signers",),
    ("signing-keys",),
    ("principals",),
    ("traffic",),
    ("policy", "show"),
    ("policy", "snapshots"),
    ("policy", "evaluate", "a.b"),
    ("policy", "simulate", "policy.yaml"),
    ("doctor",),
]
WRITING = [
    ("submit", "a.b"),
    ("policy", "apply", "policy.yaml"),
    ("grant", "deploy"),
    ("approve", "job_0"),
    ("lease", "acquire", "repo:a"),
    ("run", "start", "nightly"),
    ("effect", "begin", "refund:1", "--request", "{}"),
    ("limit", "set", "tenant", "3"),
    ("signing-key", "rotate"),
    ("key", "revoke", "mia"),
    ("worker", "--exec", "true", "--once"),
    ("exec", "--", "true"),
    ("exec", "deploy", "--", "true"),
    ("drill", "outage", "--lasting", "3s"),
]


def listing_of(folder: Path) -> dict[str, str]:
    """Every file below a folder, by what is in it."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def tells_in_one_line(said: Said, words: Sequence[str], about: str) -> None:
    assert said.code == 1, (words, said)
    told = said.out if words[0] == "doctor" else said.err
    assert about in told, (words, said)
    if words[0] != "doctor":
        assert said.out == ""
        assert len(said.err.splitlines()) == 1, (words, said)


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_a_command_that_reads_makes_no_store_and_says_how_to(
    terminal: Terminal, words: tuple[str, ...]
) -> None:
    terminal.file("policy.yaml", POLICY)
    tells_in_one_line(terminal(*words), words, "interlock init")
    assert listing_of(terminal.folder).keys() == {"policy.yaml"}


@pytest.mark.parametrize("words", [*READING, *WRITING], ids=" ".join)
def test_no_command_makes_a_store_at_a_path_that_was_named(
    terminal: Terminal, words: tuple[str, ...]
) -> None:
    terminal.file("policy.yaml", POLICY)
    at = terminal.folder / "sub" / "typo.db"
    said = terminal("--store", f"sqlite:///{at}", *words)
    tells_in_one_line(said, words, f"there is no store at {at}")
    if words in READING:
        terminal.use(INTERLOCK_STORE=f"sqlite:///{at}")
        tells_in_one_line(terminal(*words), words, f"there is no store at {at}")
    assert listing_of(terminal.folder).keys() == {"policy.yaml"}
    assert not at.parent.exists()


def test_the_first_write_makes_the_store_in_this_folder(terminal: Terminal) -> None:
    assert terminal("policy", "apply", terminal.file("policy.yaml", POLICY)).code == 0
    assert (terminal.folder / ".interlock" / "interlock.db").exists()
    assert terminal("jobs").code == 0


def test_the_first_write_makes_the_store_that_the_environment_names(terminal: Terminal) -> None:
    terminal.use(INTERLOCK_STORE=f"sqlite:///{terminal.folder}/sub/new.db")
    assert terminal("policy", "apply", terminal.file("policy.yaml", POLICY)).code == 0
    assert terminal("jobs").code == 0
    assert not (terminal.folder / ".interlock").exists()


def test_init_makes_a_store_once_and_says_what_it_did(terminal: Terminal) -> None:
    first = terminal("init")
    kept = listing_of(terminal.folder)
    again = terminal("init", "--json")
    assert (first.code, "made a store: sqlite:///.interlock/interlock.db" in first.out) == (0, True)
    assert again.json == {
        "store": "sqlite:///.interlock/interlock.db",
        "made": False,
        "wrote": [],
        "policy": None,
    }
    assert listing_of(terminal.folder) == kept
    assert terminal("jobs").code == 0


def test_init_and_the_first_key_make_what_they_are_told(terminal: Terminal) -> None:
    stores = [f"sqlite:///{terminal.folder}/{name}.db" for name in ("one", "two")]
    assert terminal("init", "--store", stores[0]).code == 0
    words = ("key", "create", "mia", "--kind", "person", "--roles", "review", "--json")
    assert terminal(*words, "--store", stores[1]).json["principal"] == "mia"
    for store in stores:
        assert terminal("jobs", "--store", store).code == 0


def test_the_nearest_store_above_is_used(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    assert terminal("policy", "apply", terminal.file("policy.yaml", POLICY)).code == 0
    job = terminal.submit("knowledge.read")
    deep = terminal.folder / "a" / "b"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    assert [each["id"] for each in terminal("jobs", "--json").json["items"]] == [job["id"]]
    assert terminal("submit", "knowledge.read").code == 0
    assert terminal("exec", "--", "true").code == 3  # decided, by the policy above
    assert f"store at {terminal.folder}/.interlock/interlock.db" in terminal("doctor").out
    assert listing_of(terminal.folder / "a") == {}
    said = terminal("init")
    assert "takes the place of the one above" in said.out
    assert terminal("jobs", "--json").json["items"] == []


def test_the_sdk_finds_the_same_store_and_reads_make_none(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    from interlock import Interlock, NoStore

    with Interlock() as il, pytest.raises(NoStore, match="interlock init") as missing:
        il.jobs()
    assert (missing.value.code, list(terminal.folder.iterdir())) == ("no_store", [])
    with Interlock() as il, pytest.raises(NoStore):
        il.evaluate_policy({"topic": "a.b"})
    assert list(terminal.folder.iterdir()) == []
    assert terminal("init", "--bare").code == 0
    (terminal.folder / "below").mkdir()
    monkeypatch.chdir(terminal.folder / "below")
    with Interlock() as il:
        assert il.jobs().items == ()
    assert list((terminal.folder / "below").iterdir()) == []


@pytest.mark.parametrize("journal", ["delete", "wal"])
@pytest.mark.parametrize("version", [0, 7])
def test_somebody_elses_database_is_refused_and_left_byte_for_byte(
    terminal: Terminal, journal: str, version: int
) -> None:
    path = terminal.folder / "theirs.db"
    theirs = sqlite3.connect(path)
    theirs.execute(f"PRAGMA journal_mode = {journal}")
    theirs.execute("CREATE TABLE jobs (id INTEGER)")
    theirs.execute("CREATE TABLE batches (id INTEGER)")
    theirs.execute(f"PRAGMA user_version = {version}")
    theirs.commit()
    theirs.close()
    terminal.file("policy.yaml", POLICY)
    before = listing_of(terminal.folder)
    for words in (*READING, *WRITING[:3], ("exec", "--", "true"), ("init",), ("serve", "--port", "0")):
        verb = words[0]
        said = (
            terminal.process(*words, "--store", f"sqlite:///{path}")
            if verb == "serve"
            else terminal("--store", f"sqlite:///{path}", *words)
        )
        tells_in_one_line(said, words, "tables of another program")
    assert listing_of(terminal.folder) == before


def test_a_database_that_somebody_has_open_is_refused_and_stays_as_it_is(terminal: Terminal) -> None:
    path = terminal.folder / "theirs.db"
    theirs = sqlite3.connect(path)
    theirs.execute("PRAGMA journal_mode = WAL")
    theirs.execute("CREATE TABLE notes (id INTEGER)")  # in the log alone
    theirs.commit()
    before = {name: text for name, text in listing_of(terminal.folder).items() if "-shm" not in name}
    tells_in_one_line(terminal("jobs", "--store", f"sqlite:///{path}"), ("jobs",), "another program")
    after = {name: text for name, text in listing_of(terminal.folder).items() if "-shm" not in name}
    theirs.close()
    assert after == before


@pytest.mark.parametrize("content", [b"notes, and no database\n" * 200, b"SQLite format 3\0" + b"\7" * 4000])
def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(terminal: Terminal, content: bytes) -> None:
    path = terminal.folder / "notes.txt"
    path.write_bytes(content)
    for words in (("jobs",), ("init",), ("submit", "a.b")):
        tells_in_one_line(terminal("--store", f"sqlite:///{path}", *words), words, "is not a database")
    assert path.read_bytes() == content
    assert os.listdir(terminal.folder) == ["notes.txt"]  # noqa: PTH208


def test_an_empty_file_is_no_store_until_one_is_made_in_it(terminal: Terminal) -> None:
    path = terminal.folder / "new.db"
    path.touch()
    tells_in_one_line(terminal("jobs", "--store", f"sqlite:///{path}"), ("jobs",), "there is no store")
    assert path.read_bytes() == b""
    assert terminal("init", "--store", f"sqlite:///{path}").code == 0
    assert terminal("jobs", "--store", f"sqlite:///{path}").code == 0


def test_a_link_that_leads_nowhere_is_named_and_nothing_is_made_behind_it(terminal: Terminal) -> None:
    path = terminal.folder / "link.db"
    path.symlink_to(terminal.folder / "nowhere.db")
    key = ("key", "create", "mia", "--kind", "person", "--roles", "review")
    for words in (("jobs",), ("init",), key, ("submit", "a.b")):
        said = terminal(*words, "--store", f"sqlite:///{path}")
        tells_in_one_line(said, words, f"is a link to {terminal.folder}/nowhere.db, which is not there")
    assert list(terminal.folder.iterdir()) == [path]

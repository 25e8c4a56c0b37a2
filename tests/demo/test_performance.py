"""The demo as a whole: it passes, it fails when it must, and it leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.cli.main import main
from interlock.demo.performance import perform
from interlock.demo.scenes import SCENES, Scene
from interlock.demo.server import Company, DemoBroken, DemoServer
from interlock.demo.story import Promise, Story
from tests.harness.processes import descendants, is_running
from tests.harness.server import clean_env

HANG_SECONDS = 180


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Temporary folders go where the test can see whether they are gone."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    yield tmp_path
    monkeypatch.undo()


def test_the_whole_demo_keeps_every_promise_and_leaves_nothing(temporary: Path) -> None:
    played = subprocess.run(
        [sys.executable, "-m", "interlock", "demo"],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        env=clean_env({"TMPDIR": str(temporary)}),
    )
    assert (played.returncode, played.stderr) == (0, ""), played.stdout
    for scene in SCENES:
        assert scene.title in played.stdout
    assert "409 snapshot_changed" in played.stdout
    assert "422 idempotency_key_reused" in played.stdout
    assert "409 fence_stale" in played.stdout
    assert "promises kept" in played.stdout
    assert list(temporary.iterdir()) == []


def test_one_scene_is_played_alone_under_its_number(
    temporary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--scene", "4"]) == 0
    out = capsys.readouterr().out
    assert f"4. {SCENES[3].title}" in out
    assert not [scene.title for scene in SCENES if scene != SCENES[3] and scene.title in out]
    assert "promises kept" in out
    assert " 1 seconds" not in out
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("words", [["--scene"], ["--help"]])
def test_the_scenes_are_listed_by_number_and_name(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with contextlib.suppress(SystemExit):
        assert main(["demo", *words]) == 0
    listed = re.findall(r"^  (\d+)  (.+)$", capsys.readouterr().out, re.MULTILINE)
    assert listed == [(str(number), scene.title) for number, scene in enumerate(SCENES, start=1)]


@pytest.mark.parametrize("word", ["0", "8", "-1", "two", "²", "1.5"])
def test_a_scene_that_there_is_not_is_refused_with_those_that_there_are(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", f"--scene={word}"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "1 to 7" in said.err
    assert "interlock demo --scene" in said.err


def test_a_broken_promise_fails_the_demo(temporary: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def play(company: Company, story: Story) -> list[Promise]:
        return [
            Promise("water runs uphill", kept=False),
            Promise("the server is up", kept=bool(company.server.url)),
        ]

    assert perform([Scene("A scene that lies", play)]) is False
    out = capsys.readouterr().out
    assert "NOT KEPT: water runs uphill" in out
    assert "1 promise not kept, of 3" in out
    assert list(temporary.iterdir()) == []


def test_a_scene_that_cannot_be_played_fails_the_demo(capsys: pytest.CaptureFixture[str]) -> None:
    def play(company: Company, story: Story) -> list[Promise]:
        return [Promise(company.agent.get("jobs/nowhere").body["id"], kept=True)]

    assert perform([Scene("A scene with a hole", play)]) is False
    assert "the scene can be played to its end (KeyError: 'id'" in capsys.readouterr().out


def test_a_server_that_does_not_start_fails_the_demo(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("interlock.demo.server.SERVE", ("serve", "--lanes", "99"))
    assert perform(SCENES) is False
    assert "lanes must be between" in capsys.readouterr().out
    assert list(temporary.iterdir()) == []


def test_a_client_without_an_answer_is_noticed(temporary: Path) -> None:
    with DemoServer() as server:
        people = [server.add_principal(f"p{number}") for number in range(3)]
        server.kill()
        with pytest.raises(DemoBroken, match="no answer"):
            server.at_once([lambda person=person: person.get("jobs") for person in people])


def test_a_worker_of_the_demo_does_not_outlive_its_stage(temporary: Path) -> None:
    with DemoServer() as server:
        hand = server.add_principal("hand", kind="worker", roles=["work"])
        others = set(descendants(os.getpid()))
        server.start_process(hand, "finish")
        workers = set(descendants(os.getpid())) - others
        assert workers
        assert server.is_running(hand)
    assert not [pid for pid in workers if is_running(pid)]
    assert server.is_cleared


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_ending_the_demo_early_leaves_nothing(temporary: Path, number: signal.Signals) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "interlock", "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_env({"TMPDIR": str(temporary)}),
        start_new_session=True,
    )
    assert demo.stdout is not None
    while "1. A payment" not in demo.stdout.readline():
        assert demo.poll() is None
    servers = descendants(demo.pid)
    assert servers
    demo.send_signal(number)
    demo.communicate(timeout=HANG_SECONDS)
    assert demo.returncode != 0
    assert not [pid for pid in servers if is_running(pid)]
    assert list(temporary.iterdir()) == []

"""A person at a terminal, in a folder of their own: types commands, reads what comes back."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from interlock.cli.main import main
from tests.harness.server import clean_env

HANG_SECONDS = 120

POLICY = """\
version: v1
default: deny
rules:
  - id: read-freely
    when: {topic: knowledge.read}
    decision: allow
  - id: two-for-large
    when: {topic: finance.payment.execute}
    if: has(payload.amount_cents) && payload.amount_cents > 10000
    decision: require_human
    approval: {quorum: 2, groups: [finance], expires_in: 4h}
  - id: one-for-small
    when: {topic: finance.payment.execute}
    decision: require_human
    approval: {self_approval: true}
  - id: one-with-grace
    when: {topic: deploy.service}
    decision: require_human
    approval: {self_approval: true, grace: 1h}
  - id: mail-slowly
    when: {topic: customer.notify}
    decision: throttle
    throttle: {rate: 1/d, burst: 1, key: actor}
    then: allow
"""


@dataclass(frozen=True, slots=True)
class Said:
    """What a command ended with."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, as JSON."""
        return json.loads(self.out)

    @property
    def problem(self) -> Any:
        """What it complained, as JSON."""
        return json.loads(self.err)


class Terminal:
    """Runs commands on the embedded store of one folder, or on whatever the words say."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._capture = capture
        self._patch = patch
        patch.chdir(folder)
        for name in list(os.environ):
            if name.startswith("INTERLOCK_") or name in ("NO_COLOR", "COLUMNS"):
                patch.delenv(name)
        # Whoever runs the tests may be logged in somewhere.
        patch.setenv("XDG_CONFIG_HOME", str(folder.with_name(f"{folder.name}-config")))

    def __call__(self, *words: str, stdin: str = "") -> Said:
        """Run a command in this process."""
        self._capture.readouterr()
        self._patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code = main(words)
        said = self._capture.readouterr()
        return Said(int(code), said.out, said.err)

    def process(self, *words: str, stdin: str = "", env: Mapping[str, str] | None = None) -> Said:
        """Run a command as a process of its own."""
        ended = subprocess.run(
            [sys.executable, "-m", "interlock.cli.main", *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            cwd=self.folder,
            env=clean_env(env),
        )
        return Said(ended.returncode, ended.stdout, ended.stderr)

    def file(self, name: str, text: str) -> str:
        """Write a file into the folder; returns its name."""
        (self.folder / name).write_text(text)
        return name

    def use(self, **variables: str) -> None:
        """Set environment variables for what follows."""
        for name, value in variables.items():
            self._patch.setenv(name, value)

    def forget(self, *names: str) -> None:
        """Unset environment variables."""
        for name in names:
            self._patch.delenv(name, raising=False)

    def key(self, name: str, *words: str) -> str:
        """Make a key on the embedded store."""
        return self("key", "create", name, *words, "--json").json["key"]

    def submit(self, topic: str = "finance.payment.execute", cents: int = 500, *words: str) -> Any:
        """Propose a payment; returns the job."""
        said = self("submit", topic, "--payload", json.dumps({"amount_cents": cents}), *words, "--json")
        return said.json

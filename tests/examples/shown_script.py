"""Runs the lines that an example or a page shows, in one shell at a terminal, as a person types them.

A person sees that a server is up before going on, and that a request has come before reviewing it; so does this. A
person also answers `interlock review`. Only the ports differ from what is shown: several tests run at once.
"""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.harness.processes import pick_port

HANG_SECONDS = 120
_LINE = re.compile(r"^(?:#  |   ) (\S.*)$", re.MULTILINE)
_HEREDOC = re.compile(r"<<'(\w+)'")
_ENDS = re.compile(r"# ends with (\d)")
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
_ANSWERS = {"approve? [y, n, e, s, q, ?] ": "y\n", "reason (may be empty): ": "as agreed\n"}
_PORTS = re.compile(r"\b8[07]00\b")
PACE = Path(__file__).with_name("human_pace.py")


class ShownScript:
    """Commands and what they print, as a page or an example shows them."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.commands: list[str] = []
        self.printed: list[str] = []
        until: str | None = None
        for line in lines:
            if until is not None:
                self.commands[-1] += f"\n{line}"
                until = None if line == until else until
            elif line.startswith("$ "):
                self.commands.append(line.removeprefix("$ "))
                heredoc = _HEREDOC.search(line)
                until = heredoc[1] if heredoc else None
            elif line:
                self.printed.append(line)

    @classmethod
    def of_example(cls, example: Path) -> ShownScript:
        """What an example says in its first lines."""
        text = example.read_text()
        head = text.split('"""', 2)[1] if example.suffix == ".py" else text
        return cls([found[1].rstrip() for found in _LINE.finditer(head)])

    @classmethod
    def of_page(cls, page: Path, language: str) -> ShownScript:
        """All blocks of a page in one language, one after the other in one shell."""
        return cls([line for block in blocks_of(page, language) for line in block.splitlines()])

    def run(self, folder: Path, env: Mapping[str, str]) -> Run:
        """Run the commands in a folder, in this environment. One ends with 0, or with what it says: `# ends with 1`."""
        port = str(pick_port())
        script = [f'wait_until() {{ {sys.executable} {PACE} "$1" {port}; }}', "set -m"]
        for number, shown in enumerate(self.commands):
            command = _PORTS.sub(port, shown)
            script += ["wait_until asked"] if "interlock review" in command else []
            script += [command, f'status=$?; echo "{number} $status" >> {folder}/exits']
            script += ["wait_until up"] if re.search(r"interlock serve|granian", command) else []
        # Whatever still runs beside the server comes to its end.
        script.append(
            f'for job in $(jobs -p | tail -n +2); do wait $job; echo "99 $?" >> {folder}/exits; done'
        )
        (folder / "shown.sh").write_text("\n".join(script) + "\nkill %1; wait %1\n")
        text = _at_a_terminal(folder, {**env, "INTERLOCK_PORT": port, "TERM": "dumb"})
        exits = [tuple(map(int, line.split())) for line in (folder / "exits").read_text().splitlines()]
        named = dict(enumerate(self.commands))
        return Run(text, [(named.get(which, "&"), code) for which, code in exits])


def blocks_of(page: Path, language: str) -> list[str]:
    """The blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


class Run:
    """What was seen on the terminal, and how each command ended."""

    def __init__(self, text: str, exits: list[tuple[str, int]]) -> None:
        self.text, self.exits = text, exits

    @property
    def failed(self) -> list[tuple[str, int]]:
        """The commands that did not end with 0."""
        return [(command, code) for command, code in self.exits if code != _promised(command)]

    def lacks(self, printed: list[str]) -> list[str]:
        """The lines of these that were not seen; `…` stands for anything."""
        return [line for line in printed if not re.search(re.escape(line).replace("…", ".*"), self.text)]


def _promised(command: str) -> int:
    said = _ENDS.search(command)
    return int(said[1]) if said else 0


def _at_a_terminal(folder: Path, env: Mapping[str, str]) -> str:
    """Run shown.sh at a pseudo-terminal, and answer what a person is asked."""
    pid, terminal = pty.fork()
    if pid == 0:  # pragma: no cover - the shell replaces this process
        os.chdir(folder)
        os.execvpe("bash", ["bash", "shown.sh"], env)
    seen, answered = "", 0
    until = time.monotonic() + HANG_SECONDS
    try:
        while time.monotonic() < until:
            if not select.select([terminal], [], [], 1)[0]:
                continue
            try:
                content = os.read(terminal, 1 << 16)
            except OSError:  # which is how a terminal says that nobody is left
                break
            if not content:
                break
            seen = _COLOUR.sub("", seen + content.decode(errors="replace")).replace("\r\n", "\n")
            for question, answer in _ANSWERS.items():
                if question in seen[answered:]:
                    answered = len(seen)
                    os.write(terminal, answer.encode())
        else:
            raise AssertionError(f"it hangs:\n{seen}")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        os.close(terminal)
        os.waitpid(pid, 0)
    return seen

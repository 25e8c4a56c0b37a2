"""The image that the Containerfile describes, made and run without a container engine.

Its instructions are followed one after another in a folder that stands for the file system. Its base is this machine's
Python. The kernel gives its programs the rights of an ordinary user and, as under `--read-only`, a file system
that is read-only outside the volume.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.harness.processes import kill_tree
from tests.harness.reaper import reaper

ROOT = Path(__file__).parents[2]
BUILD_SECONDS = 600
RUN_SECONDS = 120
_INSTRUCTION = re.compile(r"^([A-Z]+)\s+(.*)$", re.DOTALL)

# Every mount but those of the kernel and the volume ($1) becomes read-only; then the rest of the words are run. If only
# root can reach Python ($2), because it is below /root ($3), that folder is replaced by one that has nothing else.
_READ_ONLY = """
set -e
volume=$1; python=$2; hidden=$3; shift 3
mount --make-rprivate /
if [ -n "$hidden" ]; then
    mount --bind "$python" "$volume"
    mount -t tmpfs -o mode=755 none "$hidden"
    mkdir -p "$python"
    mount --move "$volume" "$python"
fi
mount --bind "$volume" "$volume"
while read -r _ _ _ _ place options _; do
    case $place in /proc*|/sys*|/dev*|"$volume") continue ;; esac
    # An ordinary user may add to the other options, not take from them.
    case $options in rw*) mount -o "remount,bind,ro${options#rw}" "$(printf %b "$place")" ;; esac
done < /proc/self/mountinfo
cd "$volume"
exec "$@"
"""


class Instruction:
    """One instruction of a Containerfile: `RUN`, and what stands after it."""

    def __init__(self, line: str) -> None:
        found = _INSTRUCTION.match(line)
        assert found, f"{line!r} is no instruction"
        self.name, self.text = found[1], found[2].strip()

    @property
    def words(self) -> list[str]:
        """The words of the exec form, which is JSON."""
        return json.loads(self.text)

    @property
    def pairs(self) -> dict[str, str]:
        """What an ENV or a LABEL sets."""
        return dict(word.split("=", 1) for word in shlex.split(self.text))


def stages(containerfile: str) -> list[list[Instruction]]:
    """The instructions of each stage; the first of each is its FROM."""
    text = re.sub(r"^#.*\n", "", containerfile, flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    found: list[list[Instruction]] = []
    for instruction in (Instruction(line) for line in lines if line.strip()):
        if instruction.name == "FROM":
            found.append([])
        found[-1].append(instruction)
    return found


class Image:
    """What `docker build` makes. `build()` before use, `close()` after."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="interlock-image-"))
        self._folder.chmod(0o755)
        reaper().remove(self._folder)
        self._stages = stages((ROOT / "Containerfile").read_text())
        self.env: dict[str, str] = {}
        self.data = self._at(self.last("VOLUME"))

    def last(self, name: str) -> str:
        """What stands after the last instruction of this name."""
        return [each.text for each in self._stages[-1] if each.name == name][-1]

    def words(self, name: str) -> list[str]:
        """The words of the last instruction of this name, in exec form; for HEALTHCHECK those of its CMD."""
        return json.loads(self.last(name)[self.last(name).index("[") :])

    def build(self) -> Image:
        """Follow every instruction. Packages come from where pip takes them; the locks' hashes are checked."""
        for stage in self._stages:
            place = "/"
            for each in stage:
                if each.name == "WORKDIR":
                    place = each.text
                    self._at(place).mkdir(parents=True, exist_ok=True)
                elif each.name == "COPY":
                    self._copy(each.text, place)
                elif each.name == "RUN":
                    self._run(each.text, place)
                elif each.name == "ENV":
                    self.env |= each.pairs
        # A fresh volume begins as the image has the folder.
        uid, gid = map(int, self.last("USER").split(":"))
        assert os.geteuid() != 0 or (self.data.stat().st_uid, self.data.stat().st_gid) == (uid, gid)
        return self

    def command(self, words: Sequence[str]) -> list[str]:
        """How to start a program of the image as its user, on a read-only file system."""
        uid, gid = self.last("USER").split(":")
        if os.geteuid() == 0:
            user = ["setpriv", "--reuid", uid, "--regid", gid, "--clear-groups", "--no-new-privs"]
            user += ["--bounding-set=-all", "--inh-caps=-all"]
        else:
            user = ["unshare", "--user", f"--map-user={uid}", f"--map-group={gid}"]
        outside = [str(self.data), sys.base_prefix, _hidden(Path(sys.base_prefix))]
        return [*_private(), "sh", "-c", _READ_ONLY, "sh", *outside, *user, *words]

    def run_env(self, env: Mapping[str, str]) -> dict[str, str]:
        """What a program of the image finds in its environment: what the image sets, and what `docker run -e` adds."""
        outside = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        inside = {
            name: self._placed(value).replace("$PATH", outside["PATH"]) for name, value in self.env.items()
        }
        return {**outside, **inside, **env}

    def run(self, words: Sequence[str], **env: str) -> subprocess.CompletedProcess[str]:
        """`docker run IMAGE WORDS…`: the entry point with these words in place of CMD."""
        return self.exec([*self.words("ENTRYPOINT"), *words], **env)

    def exec(self, words: Sequence[str], **env: str) -> subprocess.CompletedProcess[str]:
        """`docker exec`: another program of the image."""
        return subprocess.run(
            self.command(words),
            env=self.run_env(env),
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
        )

    def close(self) -> None:
        """Remove it."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _at(self, path: str) -> Path:
        return self._folder / path.lstrip("/")

    def _placed(self, text: str) -> str:
        """A text with the image's own folders where they are on this machine."""
        own = {each.text for stage in self._stages for each in stage if each.name in {"WORKDIR", "VOLUME"}}
        own |= {each.text.split()[-1] for each in self._stages[-1] if each.name == "COPY"}
        places = "|".join(map(re.escape, sorted(own, key=len, reverse=True)))
        return re.sub(rf"(?<![\w./])({places})(?![\w-])", lambda found: str(self._at(found[1])), text)

    def _copy(self, text: str, place: str) -> None:
        *sources, target = text.split()
        if sources[0].startswith("--from="):
            assert self._at(sources[1]).is_dir(), f"no stage made {sources[1]}"
            assert sources[1] == target
            return
        for source in sources:
            found = ROOT / source
            into = self._at(place) / target
            if found.is_dir():
                shutil.copytree(found, into, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                into.mkdir(parents=True, exist_ok=True)
                shutil.copy2(found, into)

    def _run(self, text: str, place: str) -> None:
        if os.geteuid() != 0:
            text = re.sub(r" && chown \S+ \S+", "", text)  # An ordinary user's files are that user's already.
        env = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "INTERLOCK_"))
        }
        env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
        said = subprocess.run(
            ["sh", "-c", self._placed(text)],
            cwd=self._at(place),
            env=env,
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
        )
        assert said.returncode == 0, f"RUN {text}\n{said.stdout}\n{said.stderr}"


def can_isolate() -> bool:
    """Whether the system lets whoever runs the tests give a process a file system of its own."""
    return subprocess.run([*_private(), "mount", "--make-rprivate", "/"], capture_output=True).returncode == 0


def _private() -> list[str]:
    return (
        ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    )


def _hidden(folder: Path) -> str:
    """The folder below the root that keeps others than root from this one; empty if none does."""
    if os.geteuid() != 0 or all(parent.stat().st_mode & 0o001 for parent in folder.parents):
        return ""
    return str(folder.parents[-2])


class Container:
    """What `docker run` starts: the entry point, until it is stopped."""

    def __init__(
        self,
        image: Image,
        words: Sequence[str] | None = None,
        *,
        entry_point: Sequence[str] | None = None,
        **env: str,
    ) -> None:
        self._image, self.env = image, env
        begin = image.words("ENTRYPOINT") if entry_point is None else entry_point
        command = image.command([*begin, *(image.words("CMD") if words is None else words)])
        descriptor, name = tempfile.mkstemp(prefix="interlock-container-", suffix=".log")
        self._log = Path(name)
        reaper().remove(self._log)
        with os.fdopen(descriptor, "ab") as log:
            self._process = subprocess.Popen(
                command,
                env=image.run_env(env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        reaper().watch(self._process.pid)

    def is_healthy(self) -> bool:
        """Whether HEALTHCHECK says so."""
        assert self._process.poll() is None, self.log()
        return self._image.exec(self._image.words("HEALTHCHECK"), **self.env).returncode == 0

    def until_healthy(self) -> Container:
        """Return once it is."""
        deadline = time.monotonic() + RUN_SECONDS
        while not self.is_healthy():
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.1)
        return self

    def stop(self) -> int:
        """`docker stop`, for as long as it takes: the image's signal to the first process."""
        self._process.send_signal(getattr(signal, self._image.last("STOPSIGNAL")))
        return self._process.wait(RUN_SECONDS)

    def kill(self) -> None:
        """`docker kill`."""
        kill_tree(self._process.pid)
        self._process.wait(RUN_SECONDS)

    def close(self) -> None:
        """End it."""
        if self._process.poll() is None:
            self.kill()
        reaper().forget(self._process.pid)
        self._log.unlink()

    def log(self) -> str:
        """What it has said."""
        return self._log.read_text(errors="replace")

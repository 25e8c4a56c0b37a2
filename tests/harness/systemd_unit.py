"""The unit that `deploy/` ships: what it says, what systemd's own tools say of it, and its limits without systemd.

A test cannot start a unit, but two of its limits the kernel sets without systemd: the calls of SystemCallFilter, and no
memory that is both writable and executable.
"""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

from tests.harness.debian_programs import Installed, installed

UNIT = Path(__file__).parents[2] / "deploy" / "interlock.service"

# Run with the names of the calls that are allowed, and then the command. The kernel says no to any other call, as
# SystemCallErrorNumber=EPERM does.
_CONFINED = """
import ctypes, os, sys
allowed, command = sys.argv[1].split(","), sys.argv[2:]
libc, seccomp = ctypes.CDLL(None, use_errno=True), ctypes.CDLL("libseccomp.so.2")
PR_SET_MDWE, REFUSE_EXEC_GAIN = 65, 1
if libc.prctl(PR_SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0) and ctypes.get_errno() != 22:
    sys.exit("the memory cannot be protected")
seccomp.seccomp_init.restype = ctypes.c_void_p
ALLOW, REFUSE_WITH_EPERM = 0x7FFF0000, 0x00050001
rules = ctypes.c_void_p(seccomp.seccomp_init(REFUSE_WITH_EPERM))
for name in allowed:
    number = seccomp.seccomp_syscall_resolve_name(name.encode())
    if number != -1:
        seccomp.seccomp_rule_add(rules, ALLOW, number, 0)
if seccomp.seccomp_load(rules):
    sys.exit("the filter cannot be loaded")
os.execvp(command[0], command)
"""


def settings() -> dict[str, list[str]]:
    """What each setting of the unit says, over all its lines."""
    found: dict[str, list[str]] = {}
    for line in UNIT.read_text().splitlines():
        name, is_setting, value = line.partition("=")
        if is_setting and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


def analyze(*words: str) -> subprocess.CompletedProcess[str]:
    """What `systemd-analyze` says; it asks no running systemd for any of this."""
    here = _systemd_analyze()
    return subprocess.run([here.program, *words], env=here.env(), capture_output=True, text=True)


def confined(command: list[str]) -> list[str]:
    """How a Python starts this command under the unit's SystemCallFilter and MemoryDenyWriteExecute."""
    assert settings()["MemoryDenyWriteExecute"] == ["yes"]
    assert settings()["SystemCallErrorNumber"] == ["EPERM"]
    allowed: set[str] = set()
    for line in settings()["SystemCallFilter"]:
        calls = {call for word in line.removeprefix("~").split() for call in _calls(word)}
        allowed = allowed - calls if line.startswith("~") else allowed | calls
    assert allowed
    return ["python", "-c", _CONFINED, ",".join(sorted(allowed)), *command]


def libraries() -> dict[str, str]:
    """The environment in which the libraries are found that came with systemd's tools."""
    found = _systemd_analyze().libraries
    return {"LD_LIBRARY_PATH": ":".join(found)} if found else {}


def _calls(word: str) -> set[str]:
    """The calls that a name of SystemCallFilter stands for: a set of systemd's, or a call."""
    if not word.startswith("@"):
        return {word}
    return {call for member in _sets()[word] for call in _calls(member)}


@functools.cache
def _sets() -> dict[str, list[str]]:
    said = analyze("syscall-filter", "--no-pager")
    assert said.returncode == 0, said.stderr
    sets: dict[str, list[str]] = {}
    name = ""
    for line in said.stdout.splitlines():
        if line.startswith("@"):
            name = line.strip()
            sets[name] = []
        elif name and line.startswith("    ") and not line.strip().startswith("#"):
            sets[name].append(line.strip())
    return sets


def _systemd_analyze() -> Installed:
    return installed("systemd-analyze", package="systemd")

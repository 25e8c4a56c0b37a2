"""PostgreSQL clusters that were never started: the first is made, the others are copies of it.

To make one is the dearest part of starting a PostgreSQL, and a copy is as new as the original.
"""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from pathlib import Path

from tests.harness.postgres_binaries import CHOICE, Binaries, locate
from tests.harness.reaper import reaper

USER = "interlock"


def put_cluster(data: Path) -> Binaries:
    """Put a cluster that was never started into `data`; returns the programs to run it with."""
    binaries, pristine = _make(os.environ.get(CHOICE, ""))
    subprocess.run(["cp", "-a", pristine, data], check=True)
    return binaries


@functools.cache
def _make(_choice: str) -> tuple[Binaries, Path]:
    folder = Path(tempfile.mkdtemp(prefix="interlock-cluster-"))
    reaper().remove(folder)
    folder.chmod(0o755)
    binaries = locate(folder / "programs")
    data = folder / "data"
    data.mkdir(mode=0o700)
    binaries.own(data)
    # Nothing is at stake while the cluster is made, so initdb need not sync.
    command = [binaries.folder / "initdb", "-D", data, "-U", USER, "--auth=trust", "--no-sync"]
    made = subprocess.run(
        [*command, "--encoding=UTF8", "--locale=C"],
        capture_output=True,
        text=True,
        cwd="/",
        **binaries.run_as,
    )
    if made.returncode != 0:
        raise RuntimeError(f"initdb failed:\n{made.stdout}\n{made.stderr}")
    return binaries, data

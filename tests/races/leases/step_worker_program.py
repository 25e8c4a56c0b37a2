"""A worker with a hundred steps to do, which may be killed at any moment and is started again.

    python -m tests.races.leases.step_worker_program URL JOURNAL STEPS     (the key is in INTERLOCK_KEY)

It takes the lease, goes on from the last checkpoint, and for each step writes a line and then a checkpoint.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from interlock import Interlock


def main(url: str, journal: Path, steps: int) -> None:
    """Do what is left to do, and say so when all of it is done."""
    with Interlock(url, os.environ["INTERLOCK_KEY"]) as il:
        lease = il.acquire_lease("task:hundred", ttl_seconds=1, wait_seconds=60)
        before = lease.predecessor.checkpoint if lease.predecessor else None
        for step in range(before.done if before else 0, steps):
            with journal.open("a") as lines:
                lines.write(f"{step} {lease.fence}\n")
            il.checkpoint_lease(lease.lease_id, lease.fence, done=step + 1)
            il.renew_lease(lease.lease_id, lease.fence)
        il.release_lease(lease.lease_id, lease.fence)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))

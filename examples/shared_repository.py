"""Two coding agents change the same file of one repository: one after the other, and the second goes on.

Each appends a line, as a coding agent would make its edit. Both are here the same program with a key of its own.

    $ git init -q billing && cd billing && git config user.name agent && git config user.email agent@example.com
    $ LEFT=$(interlock key create left-agent --kind agent --roles submit)
    $ RIGHT=$(interlock key create right-agent --kind agent --roles submit)
    $ ANN=$(interlock key create ann --kind person --roles submit,review)
    $ interlock hook git --install                  # every commit reports what it changed
    $ interlock serve > serve.log 2>&1 &
    $ export INTERLOCK_URL=http://127.0.0.1:8700
    $ INTERLOCK_KEY=$LEFT python3 ../shared_repository.py notes.md 'rename the field' &
    $ INTERLOCK_KEY=$RIGHT python3 ../shared_repository.py notes.md 'add the tests' &
    $ wait %2 %3
    done: rename the field
    done: add the tests
    $ echo 'fix a typo' >> notes.md && INTERLOCK_KEY=$ANN git commit -qam 'fix a typo'   # a person takes no lease
    $ INTERLOCK_KEY=$ANN interlock target repo:billing/notes.md                          # who changed it, and when
    $ test $(git log --oneline | wc -l) -eq 3 && test $(wc -l < notes.md) -eq 3
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import cast

from interlock import Busy, Interlock

NAME, EDIT_SECONDS, WAIT_SECONDS = "billing", 1, 120


def git(*words: str) -> None:
    """Run git in this folder."""
    subprocess.run(["git", *words], check=True)


def main(path: str, task: str) -> None:
    """Make one change of one file while nobody else makes one."""
    with Interlock() as il, il.lease(f"repo:{NAME}/{path}", purpose=task, ttl=30, wait=WAIT_SECONDS) as held:
        before = held.predecessor
        if before and before.checkpoint:
            print(f"{before.owner} did: {', '.join(cast('list[str]', before.checkpoint.done))}")
        time.sleep(EDIT_SECONDS)  # a coding agent thinks here
        with Path(path).open("a") as file:
            file.write(f"{task}\n")
        if held.lost:  # somebody else may be editing by now: commit nothing
            raise SystemExit(f"the lease on {path} was lost; not committed")
        git("add", path)
        git("commit", "-q", "-m", task)
        held.checkpoint(done=[task], open_questions=[])
        print(f"done: {task}", flush=True)


try:
    main(*sys.argv[1:])
except Busy as busy:
    print(f"not done: {busy}")  # who holds it, for what, and when to come back

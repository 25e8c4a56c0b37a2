"""A worker packs folders: an agent asks for it, and the worker does it, once policy has released the job.

The archive has the name of its job: done twice, which can happen to any worker, it is still one archive.

    $ mkdir books && echo 'inv-1 50.00' > books/2030.txt
    $ echo '{version: v1, rules: [{id: archives, when: {topic: archive.*}, decision: allow}]}' > policy.yaml
    $ interlock policy apply policy.yaml
    $ AGENT=$(interlock key create clerk --kind agent --roles submit)
    $ WORKER=$(interlock key create packer --kind worker --roles work)
    $ interlock serve > serve.log 2>&1 &
    $ export INTERLOCK_URL=http://127.0.0.1:8700
    $ INTERLOCK_KEY=$AGENT interlock submit archive.pack --payload '{"folder": "books"}' --key books-2030
    $ INTERLOCK_KEY=$AGENT interlock submit archive.pack --payload '{"folder": "nowhere"}'
    $ INTERLOCK_KEY=$WORKER python3 worker.py 2     # ends after two jobs; without the number it goes on until Ctrl-C
    job_…: packed 1 file into job_….zip
    job_…: there is no folder 'nowhere'
    $ INTERLOCK_KEY=$AGENT interlock jobs           # one has SUCCEEDED, with its result; one has FAILED
"""

from __future__ import annotations

import sys
from pathlib import Path
from zipfile import ZipFile

from interlock import Final, Retryable, Work, Worker

worker = Worker(jobs_max=int(sys.argv[1]) if sys.argv[1:] else None, concurrency=1)


@worker.handler("archive.pack")
def pack(work: Work) -> dict[str, str | int]:
    """Pack one folder. Named by the job, the archive is the same file however often this runs."""
    folder = Path(work.payload["folder"])
    if not folder.is_dir():
        print(f"{work.id}: there is no folder {str(folder)!r}")
        raise Final(f"there is no folder {str(folder)!r}")  # trying again would not help: a dead letter
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    unfinished = Path(f"{work.id}.part")
    try:
        with ZipFile(unfinished, "w") as archive:
            for file in files:
                archive.write(file)
    except OSError as trouble:
        raise Retryable(str(trouble)) from trouble  # tried again after a delay, perhaps by another worker
    if work.lost:  # this process was frozen for too long: another worker has the job
        raise Retryable("the job is not ours any more")
    unfinished.replace(f"{work.id}.zip")
    print(f"{work.id}: packed {len(files)} file{'' if len(files) == 1 else 's'} into {work.id}.zip")
    return {"archive": f"{work.id}.zip", "files": len(files)}


worker.run()

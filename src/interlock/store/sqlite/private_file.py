"""A new database file: nobody else's to read, for it holds what was asked, digests of keys, and keys that sign.

Whoever wants to share one gives the file other rights; what SQLite and Interlock put beside it follows them.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

# The default place, in the folder that somebody works in.
_OWN_FOLDER = ".interlock"


def make_private(path: Path) -> None:
    """Make the file, and the folders above it, if they are not there."""
    if path.exists():
        return
    if not path.parent.exists():
        _make_folder(path.parent)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))


def _make_folder(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        if folder.name == _OWN_FOLDER:
            (folder / ".gitignore").write_text("*\n")

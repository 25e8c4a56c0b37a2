"""A disk that is full at a word, for whoever runs the tests: SQLite is told so where it writes to the system.

The files are real, and so is everything between SQLite's `write` and Interlock. To mount a small volume takes rights
that not every runner has.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator

import apsw


class Disk:
    """Whether it is full."""

    is_full = False

    def writes(self) -> None:
        """Refuse, as the system would."""
        if self.is_full:
            raise apsw.FullError("database or disk is full")


@contextlib.contextmanager
def small_disk() -> Generator[Disk]:
    """Every SQLite file that this process opens inside the block is on this disk."""
    disk, usual = Disk(), apsw.vfs_names()[0]

    class File(apsw.VFSFile):
        def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - named by SQLite
            disk.writes()
            super().xWrite(data, offset)

    class Files(apsw.VFS):
        def __init__(self) -> None:
            super().__init__("small_disk", usual, makedefault=True)

        def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
            return File(usual, name, flags)

    files = Files()
    try:
        yield disk
    finally:
        disk.is_full = False
        files.unregister()

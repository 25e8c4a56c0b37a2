"""Sortable ids: a short prefix and a UUIDv7, so that order of making is order of sorting."""

from __future__ import annotations

import uuid_utils


def new_id(prefix: str) -> str:
    """A fresh id such as `job_0192f…`; later ids of one process sort after earlier ones."""
    return f"{prefix}_{uuid_utils.uuid7().hex}"

"""Where the embedded store is if nobody says so. By itself, so that programs that start often import nothing else."""

from __future__ import annotations

EMBEDDED_STORE = "sqlite:///.interlock/interlock.db"

"""The command line: one file per room. It has no rules and no SQL; every command uses the public API."""

from __future__ import annotations

"""The command line: one file a room, no rule and no SQL; every command is a call anybody could make."""

from __future__ import annotations

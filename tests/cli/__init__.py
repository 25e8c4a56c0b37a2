"""The command line: in process where speed matters, as a real process where a process matters."""

from __future__ import annotations

"""The client: one set of flows, run blocking or async, against a server or the embedded store."""

from __future__ import annotations

"""The operations of each room as flows: one function per route, the same for both clients."""

from __future__ import annotations

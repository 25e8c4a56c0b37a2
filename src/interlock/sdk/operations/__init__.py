"""The operations of each room as flows: one function a route, the same for both clients."""

from __future__ import annotations

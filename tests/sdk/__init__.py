"""The client, driven on a virtual clock and against real sockets."""

from __future__ import annotations

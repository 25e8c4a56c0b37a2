"""The demo: it tells the truth, and it fails when a promise is broken."""

from __future__ import annotations

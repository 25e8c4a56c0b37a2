"""The HTTP API: a small typed core, and one file of routes for each room."""

from __future__ import annotations

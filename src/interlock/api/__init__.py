"""The HTTP surface: a thin typed core, and one file of routes for each room."""

from __future__ import annotations

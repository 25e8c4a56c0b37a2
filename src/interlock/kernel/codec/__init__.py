"""JSON with one meaning: strict parsing, and one canonical form to hash."""

from __future__ import annotations

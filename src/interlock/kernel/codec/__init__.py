"""Strict JSON in, canonical JSON out. What is refused is never stored; what is hashed reads one way."""

from __future__ import annotations

"""The policy: its language, its evaluation, and every snapshot that was ever in force."""

from __future__ import annotations

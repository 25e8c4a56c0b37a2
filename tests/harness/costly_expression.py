"""An expression that is cheap on a small job and could outlast the evaluation budget on this one."""

from __future__ import annotations

from typing import Any

COSTLY = "has(payload.words) && payload.words.all(w, payload.text.matches('^(a|b)*c$'))"
TOO_MUCH: dict[str, Any] = {"words": ["a"] * 1000, "text": "ab" * 100_000}

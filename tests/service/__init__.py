"""Events leave: at least once, in order per subject, and nothing that was not committed."""

from __future__ import annotations

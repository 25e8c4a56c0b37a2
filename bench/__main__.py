"""`make bench`: every section, or those named: `make bench ARGS="kernel http"`."""

from __future__ import annotations

import sys
from importlib import import_module

SECTIONS = (
    "beside",
    "kernel",
    "http",
    "work",
    "admission",
    "grants",
    "exec",
    "leases",
    "effects",
    "growth",
    "console",
)


def main() -> int:
    """Run the sections; 1 if a goal was missed."""
    chosen = sys.argv[1:] or list(SECTIONS)
    met = [import_module(f"bench.{name}").run() for name in chosen]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())

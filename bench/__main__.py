"""`make bench`: every section, or those named: `make bench ARGS="kernel http"`. How far it is stands on stderr."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

from bench.report import course

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
    parser = argparse.ArgumentParser("make bench", description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--quiet", action="store_true", help="show no progress on stderr")
    args = parser.parse_args()
    chosen = args.sections or list(SECTIONS)
    met: list[bool] = []
    with course.shown(quiet=args.quiet):
        for done, name in enumerate(chosen):
            course.begin(name, done, len(chosen))
            met.append(import_module(f"bench.{name}").run())
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())

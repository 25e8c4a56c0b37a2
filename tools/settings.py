"""Writes deploy/interlock.toml: every setting with its meaning and its default, as a file that `serve` reads."""

from __future__ import annotations

from pathlib import Path
from typing import get_args, get_type_hints

import msgspec

from interlock.service.settings import Settings

FILE = Path(__file__).parents[1] / "deploy" / "interlock.toml"

PREFACE = """\
# Every setting of `interlock serve`, with its default. Written by `make docs`.
# A flag counts more than INTERLOCK_<NAME> in the environment, and that more than a line of this file.
# `serve` reads interlock.toml in the folder where it starts, or the file that --config or INTERLOCK_CONFIG names.
"""


def main() -> None:
    """Write the file."""
    FILE.write_text(render())
    print(f"wrote {FILE.relative_to(Path.cwd()) if FILE.is_relative_to(Path.cwd()) else FILE}")


def render() -> str:
    """The whole file; what is not set is a comment."""
    hints = get_type_hints(Settings, include_extras=True)
    lines = (
        f"\n# {get_args(hint)[1].description}\n# {name} = {_spelled(name)}\n" for name, hint in hints.items()
    )
    return PREFACE + "".join(lines)


def _spelled(name: str) -> str:
    return msgspec.json.encode(getattr(Settings(), name)).decode()


if __name__ == "__main__":
    main()

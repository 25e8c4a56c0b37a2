"""What a problem says to do next: an operation with its arguments, which each surface puts into its own words.

The API adds the route, the SDK spells it as a call and the command line as a command.
"""

from __future__ import annotations

from typing import Any

import msgspec


class NextStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The member `next` of a problem document.

    `path` is filled in, with its query; what only the caller knows stands in it as `{name}`. `arguments` are all that
    is known, by the names that the path, the query and the body give them; `needs` names the fields that only the
    caller can fill in.
    """

    operation: str
    method: str
    path: str
    arguments: dict[str, Any]
    needs: tuple[str, ...] = ()

    @property
    def route(self) -> str:
        """The step as HTTP spells it."""
        return f"{self.method} {self.path}"


def with_next(sentence: str, spelled: str) -> str:
    """The sentence of a problem, followed by the next step in the words of a surface."""
    return f"{sentence}; next: {spelled}"

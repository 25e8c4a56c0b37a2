"""What a problem says to do next: an operation with its arguments, which each surface puts into its own words.

The API spells it as a route, the SDK as a method and the command line as a command. Each appends its spelling to
the sentence of the problem, so that a reader of the other two can leave it off again.
"""

from __future__ import annotations

from typing import Any

import msgspec


class NextStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The member `next` of a problem document.

    `path` is filled in, with its query. `arguments` are all that is known, by the names that the path, the query and
    the body give them; `needs` names the fields that only the caller can fill in.
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
    return f"{sentence}{_ending(spelled)}"


def without_next(detail: str, spelled: str) -> str:
    """The sentence alone, of a detail that a surface ended with its spelling."""
    return detail.removesuffix(_ending(spelled))


def _ending(spelled: str) -> str:
    return f"; next: {spelled}"

"""Problems (RFC 9457), the only form of an error in an answer, and what each says to do next.

`detail` names no route and no command: the step that follows is `next`, which each surface puts into its own words. The
API adds the route, the SDK spells it as a call and the command line as a command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


class Wording(msgspec.Struct, frozen=True, kw_only=True):
    """How a surface words the next step: a template for each operation, put into `frame`.

    `needing` has the templates of operations that are asked for differently because of what else they need. `known`
    spells an argument, `unknown` the name of one that only the caller knows.
    """

    templates: Mapping[str, str]
    needing: Mapping[tuple[str, tuple[str, ...]], str]
    frame: str
    known: Callable[[object], str]
    unknown: Callable[[str], str] = str

    def add_to(self, sentence: str, step: NextStep | None) -> str:
        """The sentence with the next step; with its route, if a newer service names one that has no template here."""
        if step is None:
            return sentence
        template = self.needing.get((step.operation, step.needs)) or self.templates.get(step.operation)
        if template is None:
            return with_next(sentence, step.route)
        return with_next(sentence, self.frame.format(template.format_map(_Values(self, step.arguments))))


class _Values(dict[str, str]):
    """Arguments as a surface spells them."""

    def __init__(self, wording: Wording, arguments: Mapping[str, object]) -> None:
        super().__init__({name: wording.known(value) for name, value in arguments.items()})
        self._unknown = wording.unknown

    def __missing__(self, name: str) -> str:
        return self._unknown(name)


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a call was not answered with success.

    `code` is the machine-readable word of the contract, or one of the client's own: `no_answer` (nothing
    came back), `circuit_open` (not sent: the service was failing) and `unexpected_answer` (not Interlock).
    `detail` is a sentence, and `next` the operation that it advises. `fields` are those of the case, and of a problem
    that was received the whole document as it came.
    """

    status: int
    code: str
    title: str = ""
    detail: str = ""
    retryable: bool | None = None
    retry_after_seconds: float | None = None
    next: NextStep | None = None
    fields: Mapping[str, object] = {}

    @property
    def type(self) -> str:
        """A stable reference, relative to the server, at which people can read what the code means."""
        return f"/problems/{self.code}"

    @property
    def retry_after_ms(self) -> int | None:
        """When to try again, as the document says it."""
        return None if self.retry_after_seconds is None else round(self.retry_after_seconds * 1000)

    def text(self, name: str) -> str | None:
        """The named extra field if it is a string."""
        value = self.fields.get(name)
        return value if isinstance(value, str) else None

    def nested(self, name: str) -> Mapping[str, object]:
        """The named extra field if it is an object, else an empty one."""
        value = self.fields.get(name)
        return msgspec.convert(value, dict[str, object]) if isinstance(value, dict) else {}

    def document(self) -> dict[str, object]:
        """Lay the problem out as it goes over the wire."""
        document: dict[str, object] = {
            "type": self.type,
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            "retryable": self.retryable,
        }
        if self.retry_after_ms is not None:
            document["retry_after_ms"] = self.retry_after_ms
        document.update(self.fields)
        if self.next is not None:
            document["next"] = msgspec.to_builtins(self.next)
        return document

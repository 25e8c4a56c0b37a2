"""Operations: everything the API can do, declared as values that serve requests and describe themselves.

A room's route file is a table of `Operation`s. The core finds the operation, authenticates the caller, checks
the role, decodes query and body into the declared types, and awaits `answer` with one typed `Call`:

    async def approve(call: Call[Person, Services, None, Approve]) -> Reply:
        decided = await call.services.approvals.approve(call.path["job_id"], call.body.reason)
        return Reply(200, Decision(outcome=decided.outcome))
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from interlock.kernel.codec.canonical import digest
from interlock.kernel.codec.strict import JsonValue
from interlock.wire.codes import CODES
from interlock.wire.http import Headers, Request, Response

Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

_ID = re.compile(r"[a-z][a-z0-9_]{0,62}")
_PARAMETER = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_NOTHING: Mapping[Any, Any] = MappingProxyType({})

VIA_HEADER = "interlock-via"
# What a client may say of itself. Only a session of this process says "console".
_VIA_CLIENTS = frozenset({"api", "cli", "sdk"})


class KnownCaller(Protocol):
    """What the core needs to know of the caller; the rest is between authentication and rooms."""

    @property
    def tenant(self) -> str:
        """The tenant that the caller's key belongs to."""
        ...

    @property
    def principal(self) -> str:
        """The caller's name within the tenant, as written to the log."""
        ...

    @property
    def roles(self) -> Collection[str]:
        """The roles that the caller has."""
        ...


C = TypeVar("C", bound=KnownCaller)
S = TypeVar("S")
Q = TypeVar("Q")
B = TypeVar("B")


class Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of query strings: each field is one parameter, and an unknown one is refused."""


class RawBody(msgspec.Struct, frozen=True):
    """A body passed on as bytes, for operations that read more than JSON."""

    media_types: tuple[str, ...]


class Media(msgspec.Struct, frozen=True):
    """An answer that is not JSON, named by its content type."""

    media_type: str


class Reply(msgspec.Struct, frozen=True):
    """An answer that the core encodes as JSON."""

    status: int
    value: msgspec.Struct
    headers: Headers = ()


class Answer(msgspec.Struct, frozen=True):
    """An answer whose exact bytes were decided elsewhere, such as the replay of an earlier one."""

    status: int
    body: bytes
    headers: Headers = ()
    content_type: str = "application/json"


class Call(msgspec.Struct, Generic[C, S, Q, B], frozen=True, kw_only=True):
    """One request on its way to its operation: authenticated, authorised and decoded."""

    operation_id: str
    request: Request
    request_id: str
    services: S
    path: Mapping[str, str]
    query: Q
    body: B
    # The body as it was sent, before its fields got types and defaults; the canonical text of a large one.
    document: JsonValue | msgspec.Raw = None
    idempotency_key: str | None = None
    known_caller: C | None = None

    @property
    def caller(self) -> C:
        """The caller. A public operation has no caller, and must not ask for one."""
        if self.known_caller is None:
            raise LookupError(f"{self.operation_id} is public: it has no caller")
        return self.known_caller

    @property
    def via(self) -> str:
        """Where the caller asks from: "api", unless a client of ours, or a session, says otherwise."""
        if self.request.made_via is not None:
            return self.request.made_via
        said = self.request.headers.get(VIA_HEADER, "")
        return said if said in _VIA_CLIENTS else "api"

    def request_digest(self) -> str:
        """Name what is being asked for, so that a reused idempotency key can be told from a repeat."""
        body = self.document
        if isinstance(self.body, bytes):
            body = {"sha256": hashlib.sha256(self.body).hexdigest()}
        asked = {
            "operation": self.operation_id,
            "path": dict(self.path),
            "query": self.request.query,
            "body": body,
        }
        return digest("request/v1", asked)


Answered: TypeAlias = Reply | Answer | Response


class Operation(msgspec.Struct, Generic[C, S, Q, B], frozen=True, kw_only=True):
    """One thing the API can do.

    `id` is stable: it names the operation in OpenAPI and in metrics, and is its scope of idempotency keys.
    `roles`: any one of them is enough; none listed means that any known caller may. `problems` are the
    codes of the room's own refusals; those of the core (400, 401, 403, 413, 415, 500, …) are added to the
    description. `unheard` learns why a caller could not be told apart, for the counts of refused calls.
    """

    id: str
    method: Method
    path: str
    summary: str
    tag: str
    answer: Callable[[Call[C, S, Q, B]], Awaitable[Answered]]
    description: str = ""
    roles: tuple[str, ...] = ()
    public: bool = False
    query: type[Q] | None = None
    body: type[B] | RawBody | None = None
    answers: Mapping[int, Any] = _NOTHING
    problems: tuple[str, ...] = ()
    unavailable: str = "store_unavailable"  # the code when the store cannot be asked, even about the caller
    unheard: Callable[[Exception, Request, Mapping[str, str], S], None] | None = None
    parameters: Mapping[str, str] = _NOTHING  # what each path parameter is, for the description
    example: JsonValue = None  # a body that could be sent

    def __post_init__(self) -> None:
        """Refuse a declaration that could not be served or described."""
        for wrong, message in self._mistakes():
            if wrong:
                raise ValueError(f"operation {self.id!r}: {message}")

    @property
    def path_parameters(self) -> tuple[str, ...]:
        """The names in braces in the path, in order."""
        return tuple(_PARAMETER.findall(self.path))

    def _mistakes(self) -> tuple[tuple[bool, str], ...]:
        named = self.path_parameters
        shapes = (shape for shape in (self.query, self.body) if isinstance(shape, type))
        return (
            (not _ID.fullmatch(self.id), "an id is lower-case words joined by underscores"),
            (not self.path.startswith("/"), "a path starts with a slash"),
            (_PARAMETER.sub("", self.path).count("{") > 0, "a path parameter is a whole word in braces"),
            (len(set(named)) != len(named), "a path parameter appears twice"),
            (not set(self.parameters) <= set(named), "parameters describes a name that the path lacks"),
            (self.public and bool(self.roles), "a public operation cannot ask for roles"),
            (self.body is not None and self.method in ("GET", "DELETE"), f"{self.method} takes no body"),
            (not set(self.problems) <= set(CODES), "a problem code is missing from wire/codes.py"),
            (not all(map(_forbids_unknown, shapes)), "query and body derive from Query and Body"),
        )


def _forbids_unknown(shape: type) -> bool:
    return issubclass(shape, msgspec.Struct) and shape.__struct_config__.forbid_unknown_fields

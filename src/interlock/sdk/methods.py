"""Makes methods of the two clients from operations: a flow is run blocking, or on the running loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from interlock.sdk.flow import Flow
from interlock.sdk.operations.grants import claim_or_refuse
from interlock.sdk.session import Session

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from interlock.sdk.flow import Flow
    from interlock.sdk.hold import A, AsyncHold, H, Hold, Verbs
    from interlock.sdk.session import Session
    from interlock.wire.grants import GrantClaim


class Granted:
    """One block of a blocking program. A use that was claimed stays used, whatever becomes of the block.

    Every entry claims: a block that is entered again needs a permission again.
    """

    def __init__(
        self, run: Callable[[Flow[GrantClaim]], GrantClaim], claim: Callable[[], Flow[GrantClaim]]
    ) -> None:
        self._run = run
        self._claim = claim

    def __enter__(self) -> GrantClaim:
        """Claim; raises `Denied` or `Conflict` instead of entering."""
        return self._run(self._claim())

    def __exit__(self, *_: object) -> None:
        """Nothing to give back."""


class AsyncGranted:
    """One block of an async program; every entry claims."""

    def __init__(
        self, run: Callable[[Flow[GrantClaim]], Awaitable[GrantClaim]], claim: Callable[[], Flow[GrantClaim]]
    ) -> None:
        self._run = run
        self._claim = claim

    async def __aenter__(self) -> GrantClaim:
        """Claim; raises `Denied` or `Conflict` instead of entering."""
        return await self._run(self._claim())

    async def __aexit__(self, *_: object) -> None:
        """Nothing to give back."""


def granted(
    client: Session,
    task: str,
    *,
    args: Any = None,
    execution_id: str | None = None,
    grant_id: str | None = None,
    signed: bool | None = None,
    groups: Sequence[str] | None = None,
) -> Flow[GrantClaim]:
    """A block that runs only under a claimed grant; `Denied` or `Conflict` is raised instead of entering."""
    return claim_or_refuse(
        client, task, args=args, execution_id=execution_id, grant_id=grant_id, signed=signed, groups=groups
    )


P = ParamSpec("P")
T = TypeVar("T")


class Blocking(Protocol):
    """A client whose calls return when they are done."""

    session: Session

    def drive(self, flow: Flow[T]) -> T:
        """Drive a flow to its result."""
        ...


class Awaiting(Protocol):
    """A client whose calls are awaited."""

    session: Session

    async def drive(self, flow: Flow[T]) -> T:
        """Drive a flow to its result."""
        ...


def blocking(operation: Callable[Concatenate[Session, P], Flow[T]]) -> Callable[Concatenate[Blocking, P], T]:
    """An operation as a method that returns when it is done."""

    @wraps(operation)
    def call(self: Blocking, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.drive(operation(self.session, *args, **kwargs))

    _describe(call, operation, "{}")
    return call


def awaited(
    operation: Callable[Concatenate[Session, P], Flow[T]],
) -> Callable[Concatenate[Awaiting, P], Coroutine[Any, Any, T]]:
    """An operation as a coroutine method."""

    @wraps(operation)
    async def call(self: Awaiting, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.drive(operation(self.session, *args, **kwargs))

    _describe(call, operation, "{}")
    return call


def held(
    verbs: Callable[Concatenate[Session, P], Verbs[Any, H, Any]],
) -> Callable[Concatenate[Blocking, P], Hold[H]]:
    """Something to hold as a method that opens a `with` block."""

    @wraps(verbs)
    def call(self: Blocking, *args: P.args, **kwargs: P.kwargs) -> Hold[H]:
        from interlock.sdk.hold import Hold

        return Hold(self.drive, verbs(self.session, *args, **kwargs))

    _describe(call, verbs, "Hold[{}]", of=1)
    return call


def held_async(
    verbs: Callable[Concatenate[Session, P], Verbs[Any, Any, A]],
) -> Callable[Concatenate[Awaiting, P], AsyncHold[A]]:
    """Something to hold as a method that opens an `async with` block."""

    @wraps(verbs)
    def call(self: Awaiting, *args: P.args, **kwargs: P.kwargs) -> AsyncHold[A]:
        from interlock.sdk.hold import AsyncHold

        return AsyncHold(self.drive, verbs(self.session, *args, **kwargs))

    _describe(call, verbs, "AsyncHold[{}]", of=2)
    return call


def permitted(
    claim: Callable[Concatenate[Session, P], Flow[GrantClaim]],
) -> Callable[Concatenate[Blocking, P], Granted]:
    """A claim as a method that opens a `with` block, which is entered only once it is won."""

    @wraps(claim)
    def call(self: Blocking, *args: P.args, **kwargs: P.kwargs) -> Granted:

        return Granted(self.drive, lambda: claim(self.session, *args, **kwargs))

    _describe(call, claim, "Granted")
    return call


def permitted_async(
    claim: Callable[Concatenate[Session, P], Flow[GrantClaim]],
) -> Callable[Concatenate[Awaiting, P], AsyncGranted]:
    """A claim as a method that opens an `async with` block, which is entered only once it is won."""

    @wraps(claim)
    def call(self: Awaiting, *args: P.args, **kwargs: P.kwargs) -> AsyncGranted:

        return AsyncGranted(self.drive, lambda: claim(self.session, *args, **kwargs))

    _describe(call, claim, "AsyncGranted")
    return call


def _describe(
    method: Callable[..., Any], operation: Callable[..., Any], result: str, *, of: int | None = None
) -> None:
    """Show a method as it is called: on `self` instead of a session, returning what the caller gets.

    `of` says which of several results it is, where the operation names one for each kind of client.
    """
    shown = signature(operation)
    session, *others = shown.parameters.values()
    inner = str(shown.return_annotation).partition("[")[2].removesuffix("]")
    if of is not None:
        inner = inner.split(", ")[of]
    method.__signature__ = shown.replace(  # type: ignore[attr-defined]
        parameters=[session.replace(name="self", annotation=Parameter.empty), *others],
        return_annotation=result.format(inner),
    )

"""`with il.granted("deploy", args=…) as use:` — a block that runs only under a claimed grant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.sdk.operations.grants import claim_or_refuse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from interlock.sdk.flow import Flow
    from interlock.sdk.grant_models import GrantClaim
    from interlock.sdk.session import Session


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

"""Why identity says no."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.kernel.refusal import Refusal


class Unauthenticated(Refusal):
    def __init__(self, why: str = "the key is unknown or revoked") -> None:
        super().__init__(f"{why}; send a valid key as 'Authorization: Bearer <key>'")


class Forbidden(Refusal):
    def __init__(self, principal: str, roles: Sequence[str]) -> None:
        wanted = " or ".join(f"'{role}'" for role in roles)
        super().__init__(f"{principal} needs the role {wanted}; ask an admin for a key with it")


class PeopleOnly(Refusal):
    def __init__(self, principal: str, kind: str) -> None:
        super().__init__(f"{principal} is of kind '{kind}'; only a person can decide this")


class NotFound(Refusal):
    """There is no such thing for this tenant, whether or not another tenant has one."""

    def __init__(self, what: str, name: str, advice: str = "check the id") -> None:
        super().__init__(f"there is no {what} {name!r} here; {advice}")


class KeysLive(Refusal):
    def __init__(self, principal: str, count: int) -> None:
        keys = "key" if count == 1 else "keys"
        super().__init__(f"{principal} still has {count} live {keys}; revoke them first")


class KindMismatch(Refusal):
    def __init__(self, principal: str, kind: str) -> None:
        super().__init__(f"{principal} exists already as '{kind}'; choose another name or that kind")

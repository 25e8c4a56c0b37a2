"""Why a change of principals or keys is refused."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.kernel.refusal import Next, Refusal


class Unauthenticated(Refusal):
    def __init__(self, why: str = "the key is unknown or revoked") -> None:
        super().__init__(f"{why}; send a valid API key")


class SessionOver(Unauthenticated):
    """`why` says how the session ended, as a clause."""

    def __init__(self, why: str) -> None:
        Refusal.__init__(self, f"{why}; sign in again")


class LinkOver(Unauthenticated):
    """`why` says what is wrong with a sign-in link, as a clause."""

    def __init__(self, why: str) -> None:
        Refusal.__init__(self, f"{why}; make a new link, or sign in with an API key")


class SignInRefused(Refusal):
    """An identity provider vouched for a person who may not sign in here."""


class Forbidden(Refusal):
    def __init__(self, principal: str, roles: Sequence[str]) -> None:
        wanted = " or ".join(f"'{role}'" for role in roles)
        super().__init__(f"{principal} needs the role {wanted}; ask an admin for a key with it")


class PeopleOnly(Refusal):
    def __init__(self, principal: str, kind: str, what: str = "do this") -> None:
        super().__init__(f"{principal} is of kind '{kind}'; only a person can {what}; ask one of them")


class NotFound(Refusal):
    """There is no such thing for this tenant, whether or not another tenant has one."""

    def __init__(self, what: str, name: str, advice: str = "check the id", then: Next | None = None) -> None:
        super().__init__(f"there is no {what} {name!r} here; {advice}")
        self.next = then


class KeysLive(Refusal):
    def __init__(self, principal: str, count: int) -> None:
        keys = "key" if count == 1 else "keys"
        super().__init__(f"{principal} still has {count} live {keys}; revoke them first")


class KindMismatch(Refusal):
    def __init__(self, principal: str, kind: str) -> None:
        super().__init__(f"{principal} exists already as '{kind}'; choose another name or that kind")


class NameTaken(Refusal):
    """`spelled` is how the tenant spells this name."""

    def __init__(self, name: str, spelled: str) -> None:
        super().__init__(
            f"{name!r} is the same name as {spelled!r}, which is in use here; use {spelled!r} if you mean it, or "
            "choose a name that differs in more than upper and lower case"
        )


class NameUnreadable(Refusal):
    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name!a} is not a name; use letters, digits and any of _ . : @ -, all of which can be seen"
        )


class OwnerRing(Refusal):
    def __init__(self, name: str, chain: Sequence[str]) -> None:
        links = " → ".join((name, *chain))
        super().__init__(
            f"{name} would be its own owner ({links}); choose an owner who does not act for {name}"
        )


class OwnersTooMany(Refusal):
    def __init__(self, name: str, count: int, most: int) -> None:
        super().__init__(
            f"{name} would have {count} owners one above the other, and may have {most}; choose an owner nearer "
            "to the person at the end"
        )


class OwnedTooMany(Refusal):
    def __init__(self, name: str, most: int) -> None:
        super().__init__(
            f"more than {most} principals act for {name}, too many to move at once; give some of them another "
            "owner first"
        )

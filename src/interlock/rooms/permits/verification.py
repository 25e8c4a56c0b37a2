"""The format of a permit, and checking one offline. Nothing here talks to a server or shares state with one.

    keys = requests.get("https://interlock.example.com/api/v1/keys").json()     # now and then
    permit = verify_permit(token, keys, tenant="default", topic="finance.payment.execute")
    if permit.fence < highest_fence_seen(permit.job_id): refuse()               # what a signature cannot tell

A permit proves who held the job when it was issued. It cannot tell that the holder has lost it since, so a
tool that must act once also remembers the highest fence it has seen for a job (`fence_at_least`).

A permit is a compact JWS with one fixed algorithm and strict claims: the header
`{"alg":"EdDSA","kid":…,"typ":"interlock-permit+jwt"}`, and the claims `aud` (the topic), `exp`, `fence`, `iat`,
`job_hash`, `job_id` and `tenant`. Both are canonical JSON, so that a permit has exactly one encoding.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, cast

import msgspec

CLOCK_SKEW_SECONDS = 5
_RAW_KEY_BYTES = 32

Keys: TypeAlias = msgspec.Struct | Mapping[str, Any] | Sequence[Mapping[str, Any]]


class PermitInvalid(Exception):
    """The permit must not be relied on; `code` is a word to branch on, the message says why."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        """It crosses processes whole."""
        return type(self), (self.code, str(self)), self.__dict__


def verify_permit(
    token: str,
    keys: Keys,
    *,
    now: float | None = None,
    tenant: str | None = None,
    topic: str | None = None,
    job_id: str | None = None,
    job_hash: str | None = None,
    fence_at_least: int | None = None,
    leeway_seconds: float = CLOCK_SKEW_SECONDS,
) -> Permit:
    """The permit, if it is genuine, in time and matches the arguments; `PermitInvalid` otherwise.

    `keys` is what a client's `signing_keys` returns, the JSON document that the server serves, or the list in it.
    `now` is Unix time, by default the system's. Whatever of `tenant`, `topic`, `job_id`, `job_hash` is given must match
    exactly.
    """
    permit = _signed(token, keys)
    moment = time.time() if now is None else now
    if moment >= permit.exp + leeway_seconds:
        raise PermitInvalid("expired", f"the permit ran out at {permit.exp}; its holder must renew the lease")
    if permit.iat > moment + leeway_seconds:
        raise PermitInvalid("not_yet_valid", "the permit is from the future; check the clocks")
    expected = {"tenant": tenant, "aud": topic, "job_id": job_id, "job_hash": job_hash}
    for field, value in expected.items():
        if value is not None and getattr(permit, field) != value:
            raise PermitInvalid("mismatch", f"the permit's {field} is not what is expected here")
    if fence_at_least is not None and permit.fence < fence_at_least:
        raise PermitInvalid(
            "fence_stale", f"fence {permit.fence} is older than {fence_at_least}, seen before"
        )
    return permit


def _signed(token: str, keys: Keys) -> Permit:
    """The claims, once the signature over them is known to be good."""
    if (
        not isinstance(cast("object", token), str)
        or len(token) > TOKEN_CHARACTERS_MAX
        or token.count(".") != 2
    ):
        raise PermitInvalid("malformed", "this is not a permit")
    head, claims, signature = token.split(".")
    header = _part(head, Header)
    if header.alg != ALGORITHM or header.typ != TYPE:
        raise PermitInvalid(
            "malformed", f"a permit is signed with {ALGORITHM} and of type {TYPE}, nothing else"
        )
    _check_signature(_public_key(header.kid, keys), f"{head}.{claims}".encode(), _bytes(signature))
    return _part(claims, Permit)


def _part(text: str, kind: type[Any]) -> Any:
    """A part in its one spelling: duplicate keys, unknown fields or odd numbers have another."""
    data = _bytes(text)
    try:
        part = msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PermitInvalid("malformed", f"the permit cannot be read: {error}") from error
    if spelled(part) != data:
        raise PermitInvalid("malformed", "the permit is not spelled as permits are")
    return part


def _public_key(kid: str, keys: Keys) -> bytes:
    if isinstance(keys, msgspec.Struct):
        keys = cast("dict[str, Any]", msgspec.to_builtins(keys))
    listed: Any = keys.get("keys", ()) if isinstance(keys, Mapping) else keys
    for key in listed:
        if key.get("kid") == kid and key.get("kty") == "OKP" and key.get("crv") == "Ed25519":
            public = _bytes(str(key.get("x", "")))
            if len(public) == _RAW_KEY_BYTES:
                return public
    raise PermitInvalid(
        "unknown_key", f"no key {kid!r} among those given; fetch the keys of the server again"
    )


def _check_signature(public: bytes, signed: bytes, signature: bytes) -> None:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, signed)
    except (InvalidSignature, ValueError) as error:
        raise PermitInvalid(
            "bad_signature", "the permit was not signed by this key; do not act on it"
        ) from error


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text)
    except ValueError as error:
        raise PermitInvalid("malformed", "the permit is not base64url") from error


ALGORITHM = "EdDSA"
TYPE = "interlock-permit+jwt"
TOKEN_CHARACTERS_MAX = 4096


class Permit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a permit says: this job, in exactly this form, is held under this fence until `exp`.

    Times are Unix seconds.
    """

    aud: str
    exp: int
    fence: int
    iat: int
    job_hash: str
    job_id: str
    tenant: str


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    alg: str
    kid: str
    typ: str


def signing_input(permit: Permit, kid: str) -> bytes:
    """Header and claims as they are signed."""
    return f"{_header(kid)}.{b64encode(spelled(permit))}".encode()


@lru_cache(maxsize=16)
def _header(kid: str) -> str:
    return b64encode(spelled(Header(alg=ALGORITHM, kid=kid, typ=TYPE)))


def spelled(part: msgspec.Struct) -> bytes:
    """The one spelling of a header or of claims: sorted keys, no space."""
    return msgspec.json.encode(part, order="sorted")


def b64encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def b64decode(text: str) -> bytes:
    """Decode base64url without padding; anything else, another spelling of the same bytes too, is refused."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("not base64url") from error
    if b64encode(data) != text:
        raise ValueError("not canonical base64url")
    return data

"""The format of a permit: a compact JWS with one fixed algorithm and strict claims.

Header `{"alg":"EdDSA","kid":…,"typ":"interlock-permit+jwt"}`, claims `aud` (the topic), `exp`, `fence`,
`iat`, `job_hash`, `job_id` and `tenant`. Both are canonical JSON, so that a permit has exactly one encoding.
"""

from __future__ import annotations

import base64
import binascii
from functools import lru_cache

import msgspec

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

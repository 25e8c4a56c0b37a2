"""Whether an ID token proves who a person is: signed by its provider, for us, just now, in this very sign-in."""

from __future__ import annotations

import hmac
import json
import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from joserfc.jwk import Key

# Of public keys alone: who knows our client secret must not be able to sign.
ALGORITHMS = ("RS256", "ES256", "EdDSA")
# How far the provider's clock may be from ours, and how old a token may be that was made for us.
_CLOCK_SECONDS = 60
_AGE_SECONDS_MAX = 600
_KEYS_MAX = 50


class NotProven(Exception):
    """What a provider sent does not prove who the person is; the message says why, for the audit."""


def keys_from(document: Mapping[str, Any]) -> tuple[Key, ...]:
    """The keys of a key set. Those that are not understood are left out."""
    from joserfc.errors import JoseError
    from joserfc.jwk import import_key

    listed = document.get("keys")
    found: list[Key] = []
    for each in cast("list[Any]", listed)[:_KEYS_MAX] if isinstance(listed, list) else ():
        try:
            found.append(import_key(each))
        except (JoseError, ValueError, TypeError, KeyError, AttributeError):
            continue
    return tuple(found)


def signed_claims(token: str, keys: Sequence[Key]) -> Mapping[str, Any] | None:
    """What a token says if one of these keys signed it; None if it names a key that is not among them.

    Raises `NotProven` if it is no token, or its signature is wrong.
    """
    from joserfc.errors import JoseError, SecurityWarning
    from joserfc.jws import deserialize_compact, extract_compact

    try:
        named = extract_compact(token.encode()).headers().get("kid")
    except (JoseError, ValueError, TypeError):
        raise NotProven("the ID token is not readable") from None
    candidates = [key for key in keys if named is None or key.kid == named]
    for key in candidates:
        try:
            with warnings.catch_warnings():
                # The name EdDSA is deprecated, and is the one that providers use.
                warnings.simplefilter("ignore", SecurityWarning)
                payload = deserialize_compact(token, key, algorithms=list(ALGORITHMS)).payload
        except (JoseError, ValueError, TypeError):
            continue
        return _object(payload)
    if candidates and named is not None:
        raise NotProven("the signature of the ID token is wrong, or of a kind that is not accepted")
    return None


def check_claims(
    claims: Mapping[str, Any], *, issuer: str, client_id: str, nonce: str, now: datetime
) -> None:
    """Raise `NotProven` unless these claims are from this issuer, for this client, of now, and with this nonce."""
    if claims.get("iss") != issuer:
        raise NotProven("the ID token is from another issuer")
    _check_audience(claims, client_id)
    moment = now.timestamp()
    if not _seconds(claims, "exp") > moment - _CLOCK_SECONDS:
        raise NotProven("the ID token has expired")
    made = _seconds(claims, "iat")
    if not moment - _AGE_SECONDS_MAX <= made <= moment + _CLOCK_SECONDS:
        raise NotProven("the ID token was not made just now; check the clocks of both machines")
    sent = claims.get("nonce")
    if not isinstance(sent, str) or not hmac.compare_digest(sent.encode("utf-8", "replace"), nonce.encode()):
        raise NotProven("the ID token was made for another sign-in (nonce)")


def _check_audience(claims: Mapping[str, Any], client_id: str) -> None:
    audience: Any = claims.get("aud")
    several = cast("list[Any]", audience) if isinstance(audience, list) else [audience]
    if client_id not in several:
        raise NotProven("the ID token is for another client (aud)")
    party = claims.get("azp")
    if party != client_id and (party is not None or len(several) > 1):
        raise NotProven("the ID token was given to another client (azp)")


def _seconds(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NotProven(f"the ID token does not say {name}")
    return value


def _object(payload: bytes | None) -> Mapping[str, Any]:
    try:
        found: Any = json.loads(payload or b"")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise NotProven("the ID token holds no claims")
    return cast("dict[str, Any]", found)

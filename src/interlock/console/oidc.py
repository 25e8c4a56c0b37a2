"""Asks identity providers who a person is: OpenID Connect, code flow with PKCE.

What a provider says about itself is read from its issuer and believed only if it names that same issuer. Every answer
is bounded in size and time, and no redirect is followed.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlencode

import msgspec

from interlock.console.id_token import NotProven, check_claims, keys_from, signed_claims
from interlock.service.providers import Provider, is_trustworthy, lacks_claims, providers_from
from interlock.service.settings import Settings

if TYPE_CHECKING:
    from joserfc.jwk import Key

_ANSWER_BYTES_MAX = 1024 * 1024
_ANSWER_SECONDS = 10.0
# How long what a provider publishes is believed, and how long a failure to read it is.
_KEPT_SECONDS = 3600.0
_FAILED_SECONDS = 3.0
# A token with an unknown key makes us read the keys again, but not each time that one is sent.
_KEYS_AGAIN_SECONDS = 60.0


class ProviderAway(Exception):
    """A provider does not answer, or not as a provider does; the message says how, for the log."""


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """A sign-in that has begun at a provider. The browser keeps it, sealed, until it comes back."""

    provider: str
    state: str
    nonce: str
    verifier: str
    redirect_uri: str
    back: str
    session_id: str
    until: float


class _Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider says about itself."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    authorization_response_iss_parameter_supported: bool = False


class _Tokens(msgspec.Struct, frozen=True, kw_only=True):
    id_token: str
    access_token: str | None = None


class Providers:
    """The providers that a server is configured with."""

    def __init__(self, settings: Settings) -> None:
        self._clients = {each.id: ProviderClient(each) for each in providers_from(settings)}
        # Without a secret of the deployment, a sign-in ends at the process where it began.
        self.secret = settings.secret or token_urlsafe(32)

    def __iter__(self) -> Iterator[Provider]:
        return (client.provider for client in self._clients.values())

    def get(self, provider_id: str) -> ProviderClient | None:
        return self._clients.get(provider_id)


class ProviderClient:
    """This server as a client of one provider."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self._lock = asyncio.Lock()
        self._metadata: _Metadata | None = None
        self._keys: tuple[Key, ...] = ()
        self._read_at = -_KEPT_SECONDS
        self._failed_at = -_FAILED_SECONDS
        self._keys_again_at = -_KEYS_AGAIN_SECONDS

    async def address(self, begun: Begun) -> str:
        """Where the browser goes to sign in."""
        metadata, _ = await self._published()
        digest = hashlib.sha256(begun.verifier.encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": self.provider.client_id,
            "redirect_uri": begun.redirect_uri,
            "scope": self.provider.scopes,
            "state": begun.state,
            "nonce": begun.nonce,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        sign = "&" if "?" in metadata.authorization_endpoint else "?"
        return metadata.authorization_endpoint + sign + urlencode(asked)

    async def check_issuer(self, named: str) -> None:
        """Refuse an answer that names another issuer, or none although this one always does (RFC 9207)."""
        metadata, _ = await self._published()
        if (
            named != self.provider.issuer
            if named
            else metadata.authorization_response_iss_parameter_supported
        ):
            raise NotProven("the answer is from another issuer (iss)")

    async def claims(self, begun: Begun, code: str, now: datetime) -> Mapping[str, Any]:
        """What the provider says about the person who came back with this code, or `NotProven`."""
        metadata, _ = await self._published()
        tokens = await self._exchanged(metadata, begun, code)
        claims = await self._signed(tokens.id_token)
        check_claims(
            claims,
            issuer=self.provider.issuer,
            client_id=self.provider.client_id,
            nonce=begun.nonce,
            now=now,
        )
        if metadata.userinfo_endpoint and tokens.access_token and lacks_claims(self.provider, claims):
            more = await self._user_info(metadata.userinfo_endpoint, tokens.access_token)
            if more.get("sub") != claims.get("sub"):
                raise NotProven("the provider describes another account than it signed in (sub)")
            return {**more, **claims}
        return claims

    async def _signed(self, token: str) -> Mapping[str, Any]:
        """What a token says. If its key is unknown, the provider may have new ones."""
        _, keys = await self._published()
        claims = signed_claims(token, keys)
        if claims is None:
            claims = signed_claims(token, await self._keys_again())
        if claims is None:
            raise NotProven("the ID token is signed with a key that the provider does not publish")
        return claims

    async def _published(self) -> tuple[_Metadata, tuple[Key, ...]]:
        """What the provider publishes about itself, and its keys: read once an hour, by one request at a time."""
        async with self._lock:
            now = time.monotonic()
            if self._metadata is not None and now - self._read_at < _KEPT_SECONDS:
                return self._metadata, self._keys
            if now - self._failed_at < _FAILED_SECONDS:
                raise ProviderAway("it did not answer a moment ago")
            try:
                metadata = await self._discovered()
                self._keys = keys_from(await _document("GET", metadata.jwks_uri))
            except ProviderAway:
                self._failed_at = time.monotonic()
                raise
            self._metadata, self._read_at = metadata, time.monotonic()
            return metadata, self._keys

    async def _keys_again(self) -> tuple[Key, ...]:
        async with self._lock:
            now = time.monotonic()
            if self._metadata is not None and now - self._keys_again_at >= _KEYS_AGAIN_SECONDS:
                self._keys_again_at = now
                self._keys = keys_from(await _document("GET", self._metadata.jwks_uri))
            return self._keys

    async def _discovered(self) -> _Metadata:
        issuer = self.provider.issuer
        found = await _document("GET", issuer.rstrip("/") + "/.well-known/openid-configuration")
        try:
            metadata = msgspec.convert(found, _Metadata)
        except msgspec.ValidationError as error:
            raise ProviderAway(f"its configuration is not one of OpenID Connect: {error}") from None
        if metadata.issuer != issuer:
            raise ProviderAway(f"it says that its issuer is {metadata.issuer!r}, not {issuer!r}")
        addresses = (metadata.authorization_endpoint, metadata.token_endpoint, metadata.jwks_uri)
        if not all(map(is_trustworthy, (*addresses, metadata.userinfo_endpoint or issuer))):
            raise ProviderAway("one of its addresses is not https")
        return metadata

    async def _exchanged(self, metadata: _Metadata, begun: Begun, code: str) -> _Tokens:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": begun.redirect_uri,
            "code_verifier": begun.verifier,
        }
        headers: dict[str, str] = {}
        client_id, secret = self.provider.client_id, self.provider.client_secret
        methods = metadata.token_endpoint_auth_methods_supported
        if secret and ("client_secret_basic" in methods or "client_secret_post" not in methods):
            both = f"{quote(client_id, safe='')}:{quote(secret, safe='')}"
            headers["authorization"] = "Basic " + base64.b64encode(both.encode()).decode()
        else:
            form |= {"client_id": client_id} | ({"client_secret": secret} if secret else {})
        found = await _document("POST", metadata.token_endpoint, form=form, headers=headers)
        try:
            return msgspec.convert(found, _Tokens)
        except msgspec.ValidationError:
            raise NotProven("the provider sent no ID token") from None

    async def _user_info(self, address: str, token: str) -> Mapping[str, Any]:
        return await _document("GET", address, headers={"authorization": f"Bearer {token}"})


async def _document(
    method: str,
    address: str,
    *,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Mapping[str, Any]:
    """The JSON object at an address. `NotProven` if it is refused, `ProviderAway` if there is none."""
    import httpx2

    try:
        async with (
            asyncio.timeout(_ANSWER_SECONDS),
            httpx2.AsyncClient(follow_redirects=False, timeout=_ANSWER_SECONDS) as client,
            client.stream(
                method, address, data=form, headers={"accept": "application/json", **(headers or {})}
            ) as answer,
        ):
            body = b""
            async for part in answer.aiter_bytes():
                body += part
                if len(body) > _ANSWER_BYTES_MAX:
                    raise ProviderAway(f"the answer of {address} is too long")
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, OSError) as error:
        raise ProviderAway(f"{address} does not answer: {type(error).__name__}") from None
    found = _object(body)
    if 400 <= answer.status_code < 500 and (form or headers):
        why = found.get("error") if found else None
        raise NotProven(f"the provider answered {answer.status_code} {str(why)[:100]}")
    if answer.status_code != 200 or found is None:
        raise ProviderAway(f"{address} answers {answer.status_code}, and not with a JSON object")
    return found


def _object(body: bytes) -> Mapping[str, Any] | None:
    try:
        found: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None

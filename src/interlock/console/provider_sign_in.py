"""Signing in with an identity provider: off to it, and back with proof of who the person is.

What was begun is kept by the browser alone, sealed, for a quarter of an hour: an answer counts only in the browser that
asked, once.
"""

from __future__ import annotations

import base64
import hmac
import logging
import re
from collections.abc import Mapping
from secrets import token_urlsafe
from typing import Any

import msgspec

from interlock.console import sign_in
from interlock.console.client import Refusal, Refused
from interlock.console.id_token import NotProven
from interlock.console.oidc import Begun, ProviderAway, ProviderClient
from interlock.console.visit import PageRoute, Visit, cookie_name, cookie_of
from interlock.kernel.codec.sealing import CannotUnseal, seal, unseal
from interlock.kernel.ids import new_id
from interlock.rooms.identity.refusals import (
    KindMismatch,
    NameTaken,
    NameUnreadable,
    PeopleOnly,
    SignInRefused,
    Unauthenticated,
)
from interlock.service import sessions
from interlock.service.providers import NotVouched, Provider, vouched
from interlock.wire.http import Response

_BEGUN_SECONDS = 15 * 60
_BACK_CHARACTERS_MAX = 1000
_CODE_CHARACTERS_MAX = 4000
PURPOSE = b"interlock sign-in with a provider"
_HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")

_AWAY = "{title} does not answer as it should. Try again in a minute, or sign in with an API key."
_DENIED = "{title} did not sign you in. Try again, or sign in with an API key."
_STALE = "This sign-in took too long, was finished already, or began in another browser. Begin again."
_NOT_PROVEN = (
    "What {title} sent does not prove who you are, so you are not signed in. Try again; if it stays so, tell an admin: "
    "the audit says why."
)
_NOT_VOUCHED = "{title} knows you, but {reason}. Ask an administrator of {title}."

_log = logging.getLogger(__name__)


async def begin(visit: Visit) -> Response:
    """Send the browser to the provider."""
    client = _client(visit)
    back = sign_in.local(visit.query.one("next"))
    if visit.known is not None:
        return visit.redirect(back)
    begun = Begun(
        provider=client.provider.id,
        state=token_urlsafe(24),
        nonce=token_urlsafe(24),
        verifier=token_urlsafe(48),
        redirect_uri=_own_address(visit) + visit.link(f"/console/sign-in/{client.provider.id}/callback"),
        back=back if len(back) <= _BACK_CHARACTERS_MAX else sign_in.local(""),
        session_id=new_id("ses"),
        until=visit.now.timestamp() + _BEGUN_SECONDS,
    )
    try:
        to = await client.address(begun)
    except ProviderAway as away:
        return _away(visit, client.provider, back, away)
    kept = sign_in.cookie(visit, _sealed(visit, begun), _BEGUN_SECONDS, name=_cookie_name(visit))
    return Response(status=303, headers=(("location", to), ("set-cookie", kept)))


async def finish(visit: Visit) -> Response:
    """Open a session for whom the provider vouches for, always a new one, and go where they wanted to."""
    client = _client(visit)
    sign_in.check_attempts(visit, visit.request.client)
    begun = _begun(visit, client.provider)
    response = await _finished(visit, client, begun)
    if response.status >= 400:
        visit.attempts.note(visit.request.client)
    # Whatever came of it, it cannot be done again.
    gone = ("set-cookie", sign_in.cookie(visit, "", 0, name=_cookie_name(visit)))
    return msgspec.structs.replace(response, headers=(*response.headers, gone))


async def _finished(visit: Visit, client: ProviderClient, begun: Begun | None) -> Response:
    provider = client.provider
    if begun is None:
        return sign_in.form(visit, back="", status=400, problem=_STALE)
    try:
        await client.check_issuer(visit.query.one("iss"))
        code = visit.query.one("code")
        if visit.query.one("error") or not 0 < len(code) <= _CODE_CHARACTERS_MAX:
            text = _DENIED.format(title=provider.title)
            return sign_in.form(visit, back=begun.back, status=403, problem=text)
        claims = await client.claims(begun, code, visit.now)
    except ProviderAway as away:
        return _away(visit, provider, begun.back, away)
    except NotProven as unproven:
        await sessions.note_refused(
            visit.service, provider.id, provider.tenant, str(unproven), **_where_from(visit)
        )
        text = _NOT_PROVEN.format(title=provider.title)
        return sign_in.form(visit, back=begun.back, status=401, problem=text)
    return await _opened(visit, provider, begun, claims)


async def _opened(visit: Visit, provider: Provider, begun: Begun, claims: Mapping[str, Any]) -> Response:
    try:
        opened = await sessions.open_for(
            visit.service,
            vouched(provider, claims),
            just_in_time=provider.create,
            may_adopt=provider.adopt,
            session_id=begun.session_id,
            **_where_from(visit),
        )
    except NotVouched as reason:
        text = _NOT_VOUCHED.format(title=provider.title, reason=reason)
        return sign_in.form(visit, back=begun.back, status=403, problem=text)
    except (
        *(SignInRefused, KindMismatch, NameTaken),
        *(NameUnreadable, PeopleOnly, Unauthenticated),
    ) as refusal:
        return sign_in.form(
            visit, back=begun.back, status=403, problem=f"You are not signed in: {refusal.detail}."
        )
    if visit.known is not None:
        await sessions.end(visit.service, cookie_of(visit.request))
    return sign_in.welcome(visit, opened, begun.back)


def _where_from(visit: Visit) -> dict[str, Any]:
    return {"client": visit.request.client, "user_agent": visit.request.headers.get("user-agent", "")}


def _away(visit: Visit, provider: Provider, back: str, away: ProviderAway) -> Response:
    _log.warning("sign-in with %s is not possible: %s", provider.id, away)
    return sign_in.form(visit, back=back, status=502, problem=_AWAY.format(title=provider.title))


def _client(visit: Visit) -> ProviderClient:
    client = visit.providers.get(visit.path["provider"])
    if client is None:
        detail = "There is no such way to sign in here."
        raise Refused(Refusal(code="not_found", status=404, title="No such page", detail=detail))
    return client


def _own_address(visit: Visit) -> str:
    """Where the browser reaches us. The provider sends it back only to addresses that are registered there."""
    host = visit.request.headers.get("host", "")
    if not _HOST.fullmatch(host):
        detail = "The name of this server in the request is not readable."
        raise Refused(Refusal(code="invalid_request", status=400, title="Not readable", detail=detail))
    return f"{visit.request.scheme}://{host}"


def _cookie_name(visit: Visit) -> str:
    return f"{cookie_name(visit.request)}-begun"


def _sealed(visit: Visit, begun: Begun) -> str:
    raw = msgspec.json.encode(begun)
    sealed = seal(raw, visit.providers.secret, purpose=PURPOSE, about=begun.provider)
    return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()


def _begun(visit: Visit, provider: Provider) -> Begun | None:
    """What this browser began, if the answer is to that, and in time."""
    text = cookie_of(visit.request, _cookie_name(visit))
    try:
        sealed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        raw = unseal(sealed, visit.providers.secret, purpose=PURPOSE, about=provider.id)
        begun = msgspec.json.decode(raw, type=Begun)
    except (ValueError, CannotUnseal, msgspec.MsgspecError):
        return None
    state = visit.query.one("state").encode("utf-8", "replace")
    is_ours = hmac.compare_digest(begun.state.encode(), state) and begun.provider == provider.id
    return begun if is_ours and visit.now.timestamp() < begun.until else None


PAGES = (
    PageRoute(path="/console/sign-in/{provider}", answer=begin, public=True),
    PageRoute(path="/console/sign-in/{provider}/callback", answer=finish, public=True),
)

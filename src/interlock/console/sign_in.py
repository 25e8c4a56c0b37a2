"""Signing in with an API key or a one-time link, and signing out. Providers: `provider_sign_in`."""

from __future__ import annotations

import re

from interlock.console.client import Refusal, Refused
from interlock.console.visit import Notice, PageRoute, Visit, cookie_name, cookie_of
from interlock.rooms.identity.refusals import LinkOver, PeopleOnly, Unauthenticated
from interlock.service import sessions
from interlock.wire.http import Response

_DAY = 12 * 60 * 60
# A segment that leads upwards, or nowhere: out of the console, or round in a circle.
_DOTS = re.compile(r"/(?:\.|%2e){1,2}(?=[/?#]|$)", re.IGNORECASE)

_NOT_KNOWN = (
    "This key is not known, or was revoked. Check that all of it was pasted, or ask an admin for another."
)
_NOT_A_PERSON = (
    "This key belongs to an agent, a worker or a service. Only people sign in: use a key of your own."
)
_LINK_OVER = "This link was used already, or is too old. Make another one with the command interlock open."


async def show(visit: Visit) -> Response:
    """The form; a person who is signed in already goes on, unless they follow a sign-in link."""
    link = visit.query.one("link")
    if visit.known is not None and not link:
        return visit.redirect(local(visit.query.one("next")))
    return form(visit, back=visit.query.one("next"), link=link)


async def sign_in(visit: Visit) -> Response:
    """Open a session, always a new one, and keep its token in the cookie."""
    back, link, key = visit.form.one("next"), visit.form.one("link"), visit.form.one("api_key")
    client = visit.request.client
    check_attempts(visit, client)
    agent = visit.request.headers.get("user-agent", "")
    try:
        if link:
            opened = await sessions.open_with_link(visit.service, link, client=client, user_agent=agent)
        else:
            opened = await sessions.open_with_key(visit.service, key, client=client, user_agent=agent)
    except (Unauthenticated, PeopleOnly, LinkOver) as refused:
        visit.attempts.note(client)
        text = _LINK_OVER if isinstance(refused, LinkOver) else _NOT_KNOWN
        text = _NOT_A_PERSON if isinstance(refused, PeopleOnly) else text
        status = 403 if isinstance(refused, PeopleOnly) else 401
        return form(visit, back=back, status=status, problem=text)
    if visit.known is not None:
        await sessions.end(visit.service, cookie_of(visit.request))
    return welcome(visit, opened, back)


async def sign_out(visit: Visit) -> Response:
    """End the session here and at the server; what was kept in the browser goes too."""
    token = cookie_of(visit.request)
    if token:
        await sessions.end(visit.service, token)
    response = visit.redirect("/console/sign-in")
    gone = (("set-cookie", cookie(visit, "", 0)), ("clear-site-data", '"cache", "storage"'))
    return Response(status=303, headers=(*response.headers, *gone))


def welcome(visit: Visit, opened: sessions.Opened, back: str) -> Response:
    """Send a person who has just signed in to the page that they wanted, with the token in their cookie."""
    response = visit.redirect(local(back))
    kept = ("set-cookie", cookie(visit, opened.token, _DAY))
    return Response(status=303, headers=(*response.headers, kept))


def cookie(visit: Visit, value: str, seconds: int, *, name: str = "") -> str:
    """The header that keeps a token, readable by no script and sent by no other site's forms."""
    secure = "; Secure" if visit.request.scheme == "https" else ""
    name = name or cookie_name(visit.request)
    return f"{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}"


def form(visit: Visit, *, back: str, link: str = "", status: int = 200, problem: str = "") -> Response:
    """The sign-in page; with a `problem` if the last attempt failed."""
    return visit.render(
        "sign_in.html",
        status=status,
        back=local(back),
        link=link,
        notice=Notice(text=problem, is_problem=True) if problem else None,
        providers=tuple(visit.providers),
    )


def check_attempts(visit: Visit, client: str | None) -> None:
    """Refuse an attempt from where too many failed lately."""
    seconds = visit.attempts.wait_seconds(client)
    if seconds:
        detail = f"Too many attempts failed from here. Try again in {round(seconds) + 1} seconds."
        ms = round(seconds * 1000)
        raise Refused(
            Refusal(
                code="rate_limited",
                status=429,
                title="Too many attempts",
                detail=detail,
                retryable=True,
                retry_after_ms=ms,
            )
        )


def local(path: str) -> str:
    """A page of ours to go to, and nothing else."""
    # Addresses are plain ASCII, as browsers spell them; anything else did not come from a page of ours.
    is_ours = path.startswith("/console/") and path.isascii() and path.isprintable()
    is_plain = "//" not in path and "\\" not in path and not _DOTS.search(path)
    return path if is_ours and is_plain and not path.startswith("/console/sign-") else "/console/inbox"


PAGES = (
    PageRoute(path="/console/sign-in", answer=show, public=True),
    PageRoute(method="POST", path="/console/sign-in", answer=sign_in, public=True),
    PageRoute(method="POST", path="/console/sign-out", answer=sign_out, public=True),
)

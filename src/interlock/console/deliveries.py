"""Where events go: webhooks with how far they got, what they did not take, and the broker."""

from __future__ import annotations

from interlock.console.client import Refused
from interlock.console.visit import Notice, PageRoute, Visit, notice_of
from interlock.kernel.ids import new_id
from interlock.wire.events import DeadLetter, Relays, Webhook, WebhookTest
from interlock.wire.fields import Page
from interlock.wire.http import Response

_LIST = "/console/deliveries"
_ONE = _LIST + "/{webhook_id}"
_OUTCOMES = {
    "removed": "The webhook was removed; nothing more is sent to it.",
    "redelivered": "The event is on its way again. If the receiver takes it, it leaves this list.",
}


async def show(visit: Visit) -> Response:
    return await _list(visit, notice=visit.outcome(_OUTCOMES))


async def add(visit: Visit) -> Response:
    """Add a webhook. Its secret is shown on the page that answers, and never again."""
    given = visit.form.given("url", "description")
    types = visit.form.words("types")
    body = {**given, "url": given.get("url", ""), "types": types or None}
    try:
        added = await visit.api.ask("add_webhook", Webhook, body=body, once=visit.form.one("once"))
    except Refused as refused:
        entered = {**given, "types": visit.form.one("types")}
        return await _list(visit, notice=notice_of(refused.refusal), entered=entered)
    return await _list(
        visit, notice=Notice(text="The webhook was added. It gets events from now on."), made=added
    )


async def show_one(visit: Visit) -> Response:
    return await _one(visit, notice=visit.outcome(_OUTCOMES))


async def test(visit: Visit) -> Response:
    """Post a test event now, and say what the receiver answered."""
    try:
        tried = await visit.api.ask("test_webhook", WebhookTest, path=visit.path)
    except Refused as refused:
        return await _one(visit, notice=notice_of(refused.refusal))
    if tried.delivered:
        text = f"The receiver took the test event: it answered {tried.status} within {tried.milliseconds} ms."
        return await _one(visit, notice=Notice(text=text))
    text = f"The receiver did not take the test event ({tried.milliseconds} ms): {tried.error}."
    return await _one(visit, notice=Notice(text=text, is_problem=True))


async def rotate(visit: Visit) -> Response:
    """Make a new secret, which is shown on the page that answers, and never again."""
    once = visit.form.one("once")
    try:
        made = await visit.api.ask("rotate_webhook_secret", Webhook, path=visit.path, once=once)
    except Refused as refused:
        return await _one(visit, notice=notice_of(refused.refusal))
    text = "Requests are signed with a new secret. The old one signs too for a day."
    return await _one(visit, notice=Notice(text=text), made=made)


async def remove(visit: Visit) -> Response:
    try:
        await visit.api.ask("remove_webhook", Webhook, path=visit.path)
    except Refused as refused:
        return await _one(visit, notice=notice_of(refused.refusal))
    return visit.redirect(_LIST, outcome="removed")


async def redeliver(visit: Visit) -> Response:
    path = {**visit.path, "event_id": visit.form.one("event_id")}
    try:
        await visit.api.ask("redeliver_dead_letter", DeadLetter, path=path)
    except Refused as refused:
        return await _one(visit, notice=notice_of(refused.refusal))
    return visit.redirect(f"{_LIST}/{visit.path['webhook_id']}", outcome="redelivered")


async def _list(
    visit: Visit,
    *,
    notice: Notice | None = None,
    made: Webhook | None = None,
    entered: dict[str, str] | None = None,
) -> Response:
    found = await visit.api.ask("list_webhooks", Page[Webhook], query=visit.paging)
    relays = await visit.api.ask("get_relays", Relays)
    return await visit.page(
        "deliveries.html",
        notice=notice,
        webhooks=found.items,
        next_cursor=found.next_cursor,
        relays=relays,
        made=made,
        entered=entered or {},
        once=new_id("form"),
    )


async def _one(visit: Visit, *, notice: Notice | None = None, made: Webhook | None = None) -> Response:
    webhook = await visit.api.ask("get_webhook", Webhook, path=visit.path)
    letters = await visit.api.ask("list_dead_letters", Page[DeadLetter], path=visit.path, query=visit.paging)
    return await visit.page(
        "webhook.html",
        notice=notice,
        webhook=webhook,
        letters=letters.items,
        next_cursor=letters.next_cursor,
        made=made,
        once=new_id("form"),
    )


PAGES = (
    PageRoute(path=_LIST, answer=show, operation="list_webhooks"),
    PageRoute(method="POST", path=_LIST, answer=add, operation="add_webhook"),
    PageRoute(path=_ONE, answer=show_one, operation="get_webhook"),
    *(
        PageRoute(method="POST", path=f"{_ONE}/{verb}", answer=answer, operation=operation)
        for verb, answer, operation in (
            ("test", test, "test_webhook"),
            ("rotate", rotate, "rotate_webhook_secret"),
            ("remove", remove, "remove_webhook"),
            ("redeliver", redeliver, "redeliver_dead_letter"),
        )
    ),
)

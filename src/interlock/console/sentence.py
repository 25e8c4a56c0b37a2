"""Requests in a sentence: what a job does, and what approving it will do now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from interlock.console.shown import duration, listed, money_in
from interlock.kernel.codec.visible import spelled_out
from interlock.wire.approvals import ApprovalRequest
from interlock.wire.jobs import Job

_BRIEF = 80
# What words of a topic say in a sentence: "Pays 250.00 EUR to Acme".
_VERBS = (
    (("refund",), "Refunds"),
    (("payment", "payments", "pay", "payout", "payouts", "transfer"), "Pays"),
    (("deploy", "deployment", "release", "rollout"), "Deploys"),
    (("notify", "message", "mail", "email", "sms", "send"), "Sends a message"),
    (("delete", "remove", "drop", "purge"), "Deletes"),
    (("merge",), "Merges"),
    (("create", "provision"), "Creates"),
    (("update", "edit", "write", "change"), "Changes"),
    (("read", "query", "export"), "Reads"),
)
_TO = (
    "payee",
    "to",
    "recipient",
    "recipients",
    "beneficiary",
    "customer",
    "vendor",
    "supplier",
    "account",
    "destination",
)
_OF_MONEY = ("Pays", "Refunds")
_WHAT = (
    "service",
    "what",
    "name",
    "title",
    "subject",
    "resource",
    "file",
    "path",
    "repository",
    "table",
    "invoice",
    "order",
)
_VERSION = ("version", "revision", "commit", "tag", "ref")


def title_of(job: Job) -> str:
    """What a job does, in one short sentence without a full stop: `Pays 250.00 EUR to Acme in production`."""
    fields = _fields(job.payload)
    money = money_in(fields)
    verb = _verb(job.topic)
    if verb in _OF_MONEY and not money:
        verb = ""
    words = [verb or f"Runs {job.topic}"]
    what = _first(fields, _WHAT)
    if verb in _OF_MONEY and money:
        words.append(money)
    elif verb and verb != "Sends a message":
        words.append(what or (job.target.key if job.target else job.topic))
        if version := _first(fields, _VERSION):
            words.append(f"at {version}")
    elif not verb and what:
        words.append(f"on {what}")
    if to := _first(fields, _TO):
        words.append(f"to {to}")
    if money and verb not in _OF_MONEY:
        words.append(f"({money})")
    if job.env:
        words.append(f"in {job.env}")
    return spelled_out(" ".join(words))


def on_approve(request: ApprovalRequest) -> list[str]:
    """What a yes does now, sentence by sentence."""
    job, approval = request.job, request.approval
    said = [f"{title_of(job)}."]
    if request.state != "pending":
        return said
    if request.on_approve and request.on_approve.startswith("nothing: "):
        obstacle = request.on_approve.removeprefix("nothing: ")
        return [*said, f"For now an approval is refused: {spelled_out(obstacle)}."]
    group = f" of {listed(approval.groups, 'or')}" if approval.groups else ""
    others = (request.votes_needed or 1) - 1
    if others > 0:
        people = "one more person" if others == 1 else f"{others} more people"
        said.append(f"After you, {people}{group} must agree before it runs.")
    elif approval.quorum > 1:
        said.append(f"Yours is the last of the {approval.quorum} approvals that it needs.")
    if approval.grace_seconds:
        said.append(
            f"Until {duration(approval.grace_seconds)} after the last approval, it can still be withdrawn."
        )
    return [*said, _taker(request, is_at_once=others <= 0 and not approval.grace_seconds)]


def _taker(request: ApprovalRequest, *, is_at_once: bool) -> str:
    """Who will carry it out, and when."""
    when = "at once" if is_at_once else "then"
    if request.job.executor == "caller":
        caller = spelled_out(request.job.submitted_by or "")
        return f"Its caller, {caller}, can {when} run it, with exactly this payload."
    if request.takers:
        names = listed(request.takers, "or")
        return f"Worker {names} can {when} take it, with exactly this payload."
    topic = spelled_out(request.job.topic)
    return f"A worker can {when} take it, with exactly this payload. No worker has taken {topic} lately."


def _verb(topic: str) -> str:
    words = topic.lower().replace("-", ".").replace("_", ".").split(".")
    return next((verb for names, verb in _VERBS if any(name in words for name in names)), "")


def _fields(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _first(fields: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """The first of these fields that says something in a few words."""
    for name in names:
        value = fields.get(name)
        if isinstance(value, Mapping):
            value = _fields(value).get("name")
        if isinstance(value, list) and value:
            count = len(cast("list[Any]", value))
            return f"{count} {'recipients' if name in ('to', 'recipients') else 'items'}"
        if isinstance(value, str | int) and not isinstance(value, bool) and str(value):
            text = f"{value} recipients" if name == "recipients" and isinstance(value, int) else str(value)
            return text if len(text) <= _BRIEF else f"{text[: _BRIEF - 1]}…"
    return ""

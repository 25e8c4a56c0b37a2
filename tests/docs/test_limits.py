"""Every number on the page of limits is the one in the code."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

from interlock import RetryPolicy
from interlock.api import decoder, events, heads, pages
from interlock.api import jobs as job_routes
from interlock.api import workers as worker_routes
from interlock.api.app import PATH_BYTES_MAX
from interlock.kernel.codec import located, strict
from interlock.kernel.pages import PAGE_BYTES_MAX
from interlock.rooms.admission import slots
from interlock.rooms.admission.model import RUNS_DEFAULT
from interlock.rooms.effects.model import INLINE_BYTES_MAX
from interlock.rooms.events.cloud_events import TYPES_MAX
from interlock.rooms.events.model import WEBHOOKS_MAX
from interlock.rooms.grants.rules import LIFE_MAX
from interlock.rooms.identity.model import OWNERS_MAX
from interlock.rooms.identity.rules import SESSION_IDLE_MAX
from interlock.rooms.identity.sessions import LINK_LASTS, SESSION_LASTS
from interlock.rooms.jobs import audience, claims, revisions
from interlock.rooms.leases import acquisition, lines, rules, transfers
from interlock.rooms.policy import cases, cost, expressions, language, parser
from interlock.rooms.workflows.model import STEPS_MAX
from interlock.service import event_feed, sessions, settings
from interlock.service.settings import Settings
from interlock.wire import fields
from tools.reference import described

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "limits.md"
_ROW = re.compile(r"^\| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)
_SETTING = re.compile(r"setting `(\w+)`")
_SHAPES = described()["components"]["schemas"]
_BOUNDS = ("maximum", "maxLength", "maxItems", "maxProperties")


def bound(shape: str, field: str) -> int:
    """The most that a field of a body may be, as the API describes itself."""
    schema: dict[str, Any] = _SHAPES[shape]["properties"][field]
    found = {each[word] for each in (schema, *schema.get("anyOf", ())) for word in _BOUNDS if word in each}
    assert found, (shape, field)
    return int(max(found))


def usual(shape: str, field: str) -> int:
    """What a field of a body is when it is left out."""
    return int(_SHAPES[shape]["properties"][field]["default"])


def number(value: float) -> str:
    return f"{value:,.0f}"


def size(value: int) -> str:
    """Bytes, in the largest unit that divides them."""
    unit, name = (1024 * 1024, "MiB") if value % (1024 * 1024) == 0 else (1024, "KiB")
    assert value % unit == 0
    return f"{value // unit} {name}"


def time(value: float | timedelta, unit: str) -> str:
    """A time in a unit that it is a whole number of."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    whole = seconds / {"s": 1, "min": 60, "h": 3600, "days": 86_400}[unit]
    assert whole == int(whole)
    return f"{number(whole)} {unit}"


def up_to(first: str, most: str) -> str:
    return f"{first}, up to {most}"


def ranged(shape: str, field: str, unit: str, most_unit: str) -> str:
    """The usual time of a field, and the longest."""
    return up_to(time(usual(shape, field), unit), time(bound(shape, field), most_unit))


def counted(shape: str, field: str) -> str:
    """The usual number of a field, and the largest."""
    return up_to(number(usual(shape, field)), number(bound(shape, field)))


own, policy = Settings(), language.ApprovalRequirement()
# What each row must say.
LIMITS = {
    "body of a request": size(own.body_bytes_max),
    "time for a body to arrive": time(own.body_seconds, "s"),
    "unfinished bodies together": size(own.bodies_bytes_max),
    "path with its query": size(PATH_BYTES_MAX),
    "headers together": size(heads.HEADER_BYTES_MAX),
    "number of headers": f"{heads.HEADERS_MAX} (over HTTP/1.1: 100)",
    "query parameters": number(decoder.PARAMETERS_MAX),
    "`Idempotency-Key`": f"{decoder.IDEMPOTENCY_KEY_MAX} characters",
    "silence on a connection, or time for a head": time(own.idle_seconds, "s"),
    "an answer that is not read": time(own.stalled_seconds, "s"),
    "depth of JSON": number(strict.DEPTH_MAX),
    "integers in JSON": f"±{number(strict.INTEGER_MAX)}",
    "items of a page": up_to(number(pages.LIMIT_DEFAULT), number(pages.LIMIT_MAX)),
    "size of a page": size(PAGE_BYTES_MAX),
    "waiting for a record that another caller holds": time(own.acquire_seconds, "s"),
    "commands waiting before 503 `overloaded`": number(own.queue_max),
    "commands in one commit": number(own.batch_max),
    "batches at once on PostgreSQL": number(own.lanes),
    "waiting for a job": time(bound("ClaimJobsBody", "wait_seconds"), "s"),
    "waiting for a lease": time(bound("AcquireLeaseBody", "wait_seconds"), "s"),
    "waiting for a slot": time(bound("StartRunBody", "wait_seconds"), "s"),
    "waiting for events on a page": time(events.WAIT_SECONDS_MAX, "s"),
    "callers in line for one lease": number(lines.LINE_MAX),
    "callers in line for one limit": number(slots.LINE_MAX),
    "a call of the SDK, with all its retries": time(RetryPolicy().deadline_seconds, "s"),
    "a server that stops": time(own.drain_seconds, "s"),
    "topic": f"{bound('SubmitBody', 'topic')} characters",
    "labels": number(bound("SubmitBody", "labels")),
    "risks": number(min(bound("SubmitBody", "risk"), 32)),
    "pieces of evidence": number(bound("SubmitBody", "evidence")),
    "one piece of evidence": f"{number(bound('EvidenceBody', 'content'))} characters",
    "a reason or a note": f"{number(bound('ApproveBody', 'reason'))} characters",
    "attempts": counted("SubmitBody", "max_attempts"),
    "a worker's lease": up_to(
        time(usual("ClaimJobsBody", "lease_seconds"), "s"), time(bound("ClaimJobsBody", "lease_seconds"), "h")
    ),
    "jobs of one claim": number(bound("ClaimJobsBody", "max")),
    "size of one claim": size(claims._CLAIMED_BYTES_MAX),
    "topics of one claim": number(bound("ClaimJobsBody", "topics")),
    "delay before the second attempt": time(own.retry_base_seconds, "s"),
    "longest delay between attempts": time(own.retry_most_seconds, "min"),
    "result of a job": size(worker_routes._RESULT_BYTES_MAX),
    "checkpoint of a job": size(worker_routes._CHECKPOINT_BYTES_MAX),
    "error of a job": size(worker_routes._ERROR_BYTES_MAX),
    "time to decide": up_to(time(policy.expires_in, "h"), time(parser.EXPIRY_SECONDS_MAX, "days")),
    "people who must agree": up_to(number(policy.quorum), number(parser.QUORUM_MAX)),
    "escalation steps": number(parser.ESCALATIONS_MAX),
    "time to withdraw a deciding yes": f"up to {time(parser.GRACE_SECONDS_MAX, 'h')}",
    "edits of a request": number(revisions.REVISIONS_MAX),
    "size of all versions of a request": size(revisions._BYTES_MAX),
    "comments of a request": number(audience.COMMENTS_MAX),
    "one comment": f"{number(audience.COMMENT_BYTES_MAX)} bytes",
    "size of the file": size(located.TEXT_BYTES_MAX),
    "rules": number(parser.RULES_MAX),
    "an expression": f"{number(expressions.EXPRESSION_MAX)} characters",
    "evaluating one request": time(expressions.EVALUATION_SECONDS, "s"),
    "rounds of `all`, `exists`, `map` and `filter`": number(cost.STEPS_MAX),
    "values of one field": number(parser.VALUES_MAX),
    "burst of a throttle": number(parser.BURST_MAX),
    "rate of a throttle": f"{number(language.COUNT_MAX)} a period",
    "jobs of a simulation": counted("SimulateBody", "last"),
    "cases of a test": number(cases.CASES_MAX),
    "life of a grant": time(LIFE_MAX, "days"),
    "uses": counted("IssueGrantBody", "uses"),
    "pins": number(bound("IssueGrantBody", "pins")),
    "limits of one grant": number(bound("IssueGrantBody", "limits")),
    "active runs of a tenant": number(RUNS_DEFAULT),
    "a slot": ranged("StartRunBody", "ttl_seconds", "s", "h"),
    "steps of a workflow": number(STEPS_MAX),
    "time of one step": ranged("StepBody", "timeout_seconds", "h", "days"),
    "a lease": ranged("AcquireLeaseBody", "ttl_seconds", "s", "h"),
    "being suspended, in all": up_to(
        time(usual("LeaseTermsBody", "suspend_seconds_max"), "h"),
        time(bound("LeaseTermsBody", "suspend_seconds_max"), "days"),
    ),
    "name of a resource or target": f"{fields.KEY_CHARACTERS_MAX} characters",
    "holders of one shared lease": number(acquisition.HOLDERS_MAX),
    "depth of a path": number(acquisition.DEPTH_MAX),
    "checkpoint of a lease": size(transfers.CHECKPOINT_BYTES_MAX),
    "progress of a lease": size(rules.PROGRESS_BYTES_MAX),
    "changes of one touch": number(bound("TouchesBody", "changes")),
    "an attempt of an effect": ranged("BeginEffectBody", "ttl_seconds", "s", "h"),
    "id of an action": f"{fields.ACTION_ID_CHARACTERS_MAX} characters",
    "result kept inside an effect's record": size(INLINE_BYTES_MAX),
    "events and dead letters are kept": f"{own.event_days} days",
    "webhooks of a tenant": number(WEBHOOKS_MAX),
    "types of one webhook": number(TYPES_MAX),
    "a webhook's answer": time(own.webhook_timeout_seconds, "s"),
    "attempts of one event": number(own.webhook_attempts_max),
    "longest delay between attempts of one event": time(own.webhook_retry_most_seconds, "h"),
    "events waiting for one reader": number(event_feed.BUFFERED_MAX),
    "a session without use": time(SESSION_IDLE_MAX, "min"),
    "a session": time(SESSION_LASTS, "h"),
    "a sign-in link": time(LINK_LASTS, "min"),
    "owners of owners": number(OWNERS_MAX),
    "groups of a principal": number(bound("SetPrincipalBody", "groups")),
    "answers under idempotency keys are kept": (
        f"{own.idempotency_days} days, up to {number(settings._DAYS_MAX)}"
    ),
}


def shown() -> dict[str, str]:
    rows = [(what, limit) for what, limit, _ in _ROW.findall(PAGE.read_text()) if what not in {"what", "---"}]
    assert len(rows) == len(dict(rows)), "a limit is on the page twice"
    return dict(rows)


def test_every_limit_on_the_page_is_the_one_in_the_code() -> None:
    assert shown() == LIMITS


def test_every_setting_that_the_page_names_exists() -> None:
    named = set(_SETTING.findall(PAGE.read_text()))
    assert len(named) > 10
    assert named <= set(Settings.__struct_fields__)


def test_what_the_page_says_beside_a_limit_is_true() -> None:
    text = PAGE.read_text()
    assert f"a tenant's terms: {time(usual('LeaseTermsBody', 'ttl_seconds_max'), 'h')} |" in text
    assert f"that of a local server {time(sessions._BANNER_LINK_LASTS, 'h')} |" in text
    assert (
        job_routes._WAIT_SECONDS_MAX
        == worker_routes._WAIT_SECONDS_MAX
        == bound("ClaimJobsBody", "wait_seconds")
    )


def test_every_default_on_the_page_about_delivery_is_the_one_in_the_code() -> None:
    rows = re.findall(
        r"^\| `INTERLOCK_(\w+)` \| ([^|]+) \|", (DOCS / "delivery.md").read_text(), re.MULTILINE
    )
    assert len(rows) > 4
    for name, default in rows:
        value = getattr(own, name.lower())
        shown_as = (
            str(value).lower() if isinstance(value, bool) else f"{value:g}" if value != "" else "\N{EN DASH}"
        )
        assert default == shown_as, name


def test_the_retry_contract_has_the_numbers_of_the_sdk() -> None:
    text, patience = (DOCS / "retries.md").read_text(), RetryPolicy()
    for name in ("busy", "full", "unavailable"):
        backoff = patience.backoff(name)
        first = backoff.base_seconds
        shown_first = f"{first * 1000:g} ms" if first < 1 else f"{first:g} s"
        numbers = (
            f"| {shown_first} | {backoff.multiplier:g} | {backoff.cap_seconds:g} s | {backoff.attempts_max} |"
        )
        assert re.search(rf"^\| `{name}` \|.*{re.escape(numbers)}$", text, re.MULTILINE), numbers
    assert f"| deadline | {patience.deadline_seconds:g} s a call |" in text
    assert f"| budget | {patience.budget.ratio:.0%}".replace("%", " %") in text
    assert f"| breaker | {patience.breaker.failures_max} in a row |" in text

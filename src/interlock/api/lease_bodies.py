"""What callers send about leases."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

import msgspec

from interlock.api.decoder import Spelled
from interlock.api.fields import Text
from interlock.api.operations import Body
from interlock.api.pages import PageQuery
from interlock.kernel.codec.canonical import canonical
from interlock.kernel.codec.durations import TtlSeconds
from interlock.rooms.leases.model import Mode
from interlock.rooms.leases.transfers import Content

Resource = Annotated[str, msgspec.Meta(min_length=1, max_length=500, pattern=r"^[^\u0000-\u001f]*$(?!\n)")]
Fence = Annotated[int, msgspec.Meta(ge=0)]


class AcquireBody(Body, frozen=True, kw_only=True):
    """With `wait_seconds` the caller waits in line. `session` tells apart several workers of one principal."""

    resource: Resource
    purpose: Text = ""
    mode: Mode = Mode.EXCLUSIVE
    ttl_seconds: TtlSeconds = 60
    wait_seconds: Annotated[float, msgspec.Meta(ge=0, le=300)] = 0
    session: Text = ""


class CheckBody(Body, frozen=True, kw_only=True):
    """The fence that somebody came with."""

    fence: Fence


class FenceBody(CheckBody, frozen=True, kw_only=True):
    """A lease that was acquired with a `session` takes it again with every call."""

    session: Text = ""


class ResumeBody(Body, frozen=True, kw_only=True):
    """Only the owner can resume, so the fence may be left out; one that is sent must be current."""

    fence: Fence | None = None
    session: Text = ""


class RenewBody(FenceBody, frozen=True, kw_only=True):
    progress: Spelled = None


class CheckpointBody(FenceBody, frozen=True, kw_only=True):
    """What is done, what is half done, and what a successor should know."""

    done: Spelled
    partial: Spelled = None
    evidence: Spelled = None
    validation: Spelled = None
    open_questions: Spelled = None


class SuspendBody(FenceBody, frozen=True, kw_only=True):
    reason: Literal["waiting_on_review", "paused_by_policy"]


class HandOffBody(FenceBody, frozen=True, kw_only=True):
    """Without `to`, whoever comes next gets it. `checkpoint` is what they start from.

    It is an object with `done` and the other fields of a checkpoint, or any value, which then is what is done.
    """

    to: Text | None = None
    checkpoint: Any = None


class TermsBody(Body, frozen=True, kw_only=True):
    """`progress_after`: how often a lease may be renewed without progress; null for any number."""

    ttl_seconds_max: Annotated[int, msgspec.Meta(ge=1, le=86_400)] = 3600
    suspend_seconds_max: Annotated[int, msgspec.Meta(ge=1, le=7 * 86_400)] = 86_400
    progress_after: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] | None = None


class LeasesQuery(PageQuery, frozen=True, kw_only=True):
    """`live`: only those that hold their resource by now."""

    resource: Resource | None = None
    owner: Text | None = None
    live: bool = False


_FIELDS = ("done", "partial", "evidence", "validation", "open_questions")


def content_of(body: CheckpointBody) -> Content:
    return _content({name: getattr(body, name) for name in _FIELDS})


def handed_content(checkpoint: Any) -> Content | None:
    """What a hand-off leaves behind: a checkpoint's fields, a plain value for what is done, or nothing new."""
    if checkpoint is None:
        return None
    if isinstance(checkpoint, dict):
        fields = cast("dict[str, Any]", checkpoint)
        if "done" in fields and set(fields) <= set(_FIELDS):
            return _content(fields)
    return _content({"done": checkpoint})


def kept(value: Any) -> msgspec.Raw:
    """A caller's value as it is stored."""
    return msgspec.Raw(canonical(value))


def _content(fields: dict[str, Any]) -> Content:
    return Content(**{name: kept(value) for name, value in fields.items()})

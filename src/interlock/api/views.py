"""How jobs and approvals look from outside."""

from __future__ import annotations

from datetime import datetime
from typing import TypeVar

from interlock.rooms.jobs.approval import Approval
from interlock.rooms.jobs.model import GRANTED_LABEL, Evidence, Failure, Job, Revision, TargetRef
from interlock.wire import jobs as wire
from interlock.wire.marks import OMITTED

J = TypeVar("J", bound=wire.Job)

"""Jobs with people and workers, whose claims come with permits."""

from __future__ import annotations

from tests.api.jobs.conftest import durable_shift, shift

__all__ = ["durable_shift", "shift"]

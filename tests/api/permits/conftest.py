"""Jobs with people and workers, whose claims come with permits."""

from __future__ import annotations

from tests.api.jobs.conftest import client, durable_client

__all__ = ["client", "durable_client"]

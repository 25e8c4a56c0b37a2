"""What the tests of every room share: the whole API in this process, on memory or on a durable store."""

from __future__ import annotations

from tests.api.conftest import api, durable, durable_url

__all__ = ["api", "durable", "durable_url"]

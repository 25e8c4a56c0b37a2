"""Stores, receivers and brokers for relays: those of the tests of the relays themselves."""

from __future__ import annotations

from tests.service.conftest import nats, receive, store_url

__all__ = ["nats", "receive", "store_url"]

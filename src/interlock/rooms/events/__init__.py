"""Outbox: events written by the transaction that caused them, waiting to leave."""

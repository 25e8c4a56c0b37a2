"""Audit: who did what to which version under which rule, written by the transaction that did it."""

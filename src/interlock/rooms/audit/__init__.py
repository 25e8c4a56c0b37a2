"""Audit: who did what to which version under which rule, written in the same transaction."""

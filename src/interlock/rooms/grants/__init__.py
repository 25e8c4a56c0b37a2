"""Grants: one-shot permissions, found and consumed in one decision."""

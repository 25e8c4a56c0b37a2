"""Approvals: people's decisions, bound to exactly what they saw."""

"""Grants: limited permissions, found and used in one decision."""

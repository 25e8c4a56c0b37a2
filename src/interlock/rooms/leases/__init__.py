"""Leases: who owns what, until when, and how far they got."""

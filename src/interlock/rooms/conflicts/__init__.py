"""Conflicts: collisions kept as things that somebody can review."""

"""Conflicts: collisions, recorded so that a person can review them."""

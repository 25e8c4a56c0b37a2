"""Stores keep records. They know kinds, columns and locks, and no rules."""

"""Interlock: who may act, on exactly what, exactly once, one owner at a time."""

"""Gated commands: a task runs once, under a claimed grant or an approval, and leaves a record."""

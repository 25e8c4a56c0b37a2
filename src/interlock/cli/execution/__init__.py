"""Gated commands: a task runs once, under a claimed grant or a granted approval, and leaves a record."""

"""Workflows: steps that run as jobs inside an admitted run, in the order of their dependencies."""

"""Workflows: steps that run as jobs, in the order of what they depend on, inside an admitted run."""

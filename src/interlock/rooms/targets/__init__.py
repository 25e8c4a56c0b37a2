"""Targets: what actors change, at which version, and who changed it last."""

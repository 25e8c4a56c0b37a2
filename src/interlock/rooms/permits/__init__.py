"""Permits: signed tokens with which a tool checks offline that its caller holds the job."""

"""Permits: signed tokens by which a tool can check, offline, that whoever calls it holds the job."""

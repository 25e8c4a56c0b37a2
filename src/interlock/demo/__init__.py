"""The demo: scenes of failures at a company, played on a temporary store."""

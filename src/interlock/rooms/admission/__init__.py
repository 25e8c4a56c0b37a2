"""Admission: a run starts only while its tenant, and its workflow, have room."""

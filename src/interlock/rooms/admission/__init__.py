"""Admission: a run starts only if its tenant and its workflow have a free slot."""

"""What may happen to a job: the policy language, its evaluation, and every snapshot ever in force."""

from __future__ import annotations

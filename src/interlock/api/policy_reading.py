"""A policy out of a request, without keeping anybody else waiting.

A policy of a thousand expressions takes seconds to check, and whoever may ask about a candidate may send one. So
all but short ones are read in another process, or on a thread where there is no server, and nothing of a candidate is
kept.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import msgspec

from interlock.api.problem import ProblemError, problem
from interlock.codec.located import SourceInvalid
from interlock.policy.judging import SHORT_BYTES
from interlock.policy.language import PolicyDocument
from interlock.policy.parsing import parse_policy
from interlock.runtime.compute_pool import ComputePool

_candidates = ThreadPoolExecutor(1, thread_name_prefix="policy-candidates")


async def read_policy(text: bytes, pool: ComputePool, tenant: str) -> PolicyDocument:
    """The policy to be put in force, or the problem that lists what is wrong with it."""
    return await _read(text, pool, tenant, None)


async def read_candidate(policy: Any, pool: ComputePool, tenant: str) -> PolicyDocument:
    """A policy that is only asked about, as text or as an object."""
    text = policy.encode() if isinstance(policy, str) else msgspec.json.encode(policy)
    return await _read(text, pool, tenant, _candidates)


async def _read(text: bytes, pool: ComputePool, tenant: str, thread: Executor | None) -> PolicyDocument:
    if len(text) <= SHORT_BYTES:
        return _parsed(text)
    if pool.is_open:
        return await pool.run(tenant, len(text), _parsed, text)
    return await asyncio.get_running_loop().run_in_executor(thread, _parsed, text)


def _parsed(text: bytes) -> PolicyDocument:
    try:
        return parse_policy(text)
    except SourceInvalid as wrong:
        errors = [
            {"path": each.path, "reason": each.message, "line": each.line, "column": each.column}
            for each in wrong.errors
        ]
        first = wrong.errors[0]
        detail = f"line {first.line}, column {first.column}: {first.message}"
        raise ProblemError(problem("invalid_request", detail, members={"errors": errors})) from None

"""The service names routes in its advice; whoever sits at a terminal is told the command instead."""

from __future__ import annotations

import functools
import re

_ID = r"([A-Za-z0-9_:.\-]*[A-Za-z0-9])"
# What an id or a route may go on with: a shorter one must not be taken for it.
_END = r"(?:\?[\w=&]+)?(?![:.\-]*[\w/])"
_PHRASES = (
    ("and decide with job_hash ", "and decide with --job-hash "),
    ("wait with wait_seconds", "wait in line with --wait"),
    (
        "this Idempotency-Key was used for a different request; send a new key for a new request",
        "this --key was used for a different request; give a new request a --key of its own",
    ),
    ("send its signature with POST /api/v1/grants", "sign it with `interlock grant --sign-with KEYFILE`"),
)
_COMMANDS = (
    ("POST", rf"approvals/{_ID}/(approve|reject|refresh|edit)", r"`interlock \2 \1`"),
    ("GET", rf"approvals/{_ID}", r"`interlock approval \1`"),
    ("GET", "approvals", "`interlock approvals`"),
    ("POST", rf"jobs/{_ID}/(cancel|retry)", r"`interlock \2 \1`"),
    ("GET", rf"jobs/{_ID}/history", r"`interlock job \1 --history`"),
    ("GET", rf"jobs/{_ID}", r"`interlock job \1`"),
    ("GET", "jobs", "`interlock jobs`"),
    ("POST", "jobs", "`interlock submit`"),
    ("GET", rf"workflow-runs/{_ID}", r"`interlock workflow run \1`"),
    ("POST", rf"effects/{_ID}/(resolve|begin)", r"`interlock effect \2 \1`"),
    ("GET", rf"effects/{_ID}", r"`interlock effect show \1`"),
    ("GET", rf"leases/{_ID}", r"`interlock lease show \1`"),
    ("GET", rf"grants/{_ID}", r"`interlock grants \1`"),
    ("POST", "grants", "`interlock grant`"),
    ("POST", "signers", "`interlock signer add`"),
    ("POST", rf"api-keys/{_ID}/revoke", r"`interlock key revoke \1`"),
    ("POST", "policy/evaluate", "`interlock policy evaluate`"),
    ("GET", "policy/snapshots", "`interlock policy snapshots`"),
    ("PUT", "policy", "`interlock policy apply FILE`"),
    ("GET", "policy", "`interlock policy show`"),
)


def as_commands(text: str) -> str:
    """`text` with each route that has a command spelled as that command, and fields as options."""
    for phrase, spelled in _PHRASES:
        text = text.replace(phrase, spelled)
    if "/api/v1/" not in text:
        return text
    for pattern, command in _patterns():
        text = pattern.sub(command, text)
    return text


@functools.cache
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Made when they are needed: most commands say nothing of a route."""
    return tuple(
        (re.compile(rf"{verb} /api/v1/{route}{_END}"), command) for verb, route, command in _COMMANDS
    )

"""The service names routes in its advice; whoever sits at a terminal is told the command instead."""

from __future__ import annotations

import re

_ID = r"([A-Za-z0-9_:.\-]*[A-Za-z0-9])"
_COMMANDS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(rf"{method} /api/v1/{route}"), command)
    for method, route, command in (
        ("POST", rf"approvals/{_ID}/(approve|reject|refresh|edit)", r"`interlock \2 \1`"),
        ("GET", rf"approvals/{_ID}", r"`interlock approval \1`"),
        ("POST", rf"jobs/{_ID}/cancel", r"`interlock cancel \1`"),
        ("GET", rf"jobs/{_ID}/history", r"`interlock job \1 --history`"),
        ("GET", rf"jobs/{_ID}", r"`interlock job \1`"),
        ("GET", "jobs", "`interlock jobs`"),
        ("GET", "approvals", "`interlock approvals`"),
        ("POST", rf"effects/{_ID}/(resolve|begin)", r"`interlock effect \2 \1`"),
        ("GET", rf"effects/{_ID}", r"`interlock effect show \1`"),
        ("POST", "policy/evaluate", "`interlock policy evaluate`"),
        ("GET", "policy/snapshots", "`interlock policy snapshots`"),
        ("PUT", "policy", "`interlock policy apply FILE`"),
        ("GET", "policy", "`interlock policy show`"),
    )
)


def as_commands(text: str) -> str:
    """`text` with each route that has a command spelled as that command, and fields as options."""
    text = text.replace("wait with wait_seconds", "wait in line with --wait")
    if "/api/v1/" not in text:
        return text
    for pattern, command in _COMMANDS:
        text = pattern.sub(command, text)
    return text

"""What can be wrong with a store or a setting, in one line with the next step.

Imported only when something went wrong: it knows the exceptions of layers that most commands never load.
"""

from __future__ import annotations

import functools
import re

from interlock.cli.exits import Exit, Failed

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


def explained(error: Exception) -> Failed | None:
    """How a command ends that met this error; None for one that nobody expected."""

    from interlock.kernel.refusal import Fault, LockBusy, Refusal
    from interlock.kernel.storage import LockTimeout, NotAStore, SchemaTooNew, StoreDown, StoreMissing
    from interlock.service.settings import BadSetting

    match error:
        case BadSetting():
            return Failed(str(error), Exit.USAGE, name="bad_setting")
        case SchemaTooNew():
            return Failed(str(error), name="schema_too_new")
        case StoreMissing():
            return Failed(str(error), name="no_store")
        case NotAStore():
            return Failed(str(error), name="not_a_store")
        case StoreDown():
            return _told(error, str(error), Exit.UNAVAILABLE, "store_unavailable")
        case LockBusy() | LockTimeout():
            return _told(error, str(error), Exit.BUSY, "lock_busy")
        case Refusal() | Fault():
            code = Exit.ERROR if isinstance(error, Refusal) else Exit.UNAVAILABLE
            return _told(error, as_commands(error.detail), code, "internal_error")
        case ValueError() if "store URL" in str(error) or "driver is not installed" in str(error):
            return Failed(str(error), Exit.USAGE, name="bad_store_url")
        case OSError():
            detail = f"the store could not be opened: {error}"
            return _told(error, detail, Exit.UNAVAILABLE, "store_unavailable")
        case _:
            return None


def _told(error: Exception, detail: str, code: Exit, otherwise: str) -> Failed:
    """The same problem that a server would answer with; what none knows is the one called `otherwise`."""
    from interlock.api.problem import problem
    from interlock.api.problems import translator
    from interlock.wire.codes import CODES

    known = translator(CODES["lock_busy"].status)(error) or problem(otherwise, detail)
    return Failed(detail, code, problem={**known.document(), "detail": detail})

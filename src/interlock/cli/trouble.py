"""What can be wrong with a store or a setting, in one line with the next step.

Imported only when something went wrong: it knows the exceptions of layers that most commands never load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.cli.exits import Exit, Failed
from interlock.cli.next_steps import in_shell

if TYPE_CHECKING:
    from interlock.service.settings import BadSetting


def explained(error: Exception) -> Failed | None:
    """How a command ends that met this error; None for one that nobody expected."""

    from interlock.kernel.refusal import Fault, LockBusy, Refusal
    from interlock.kernel.storage import LockTimeout, NotAStore, SchemaTooNew, StoreDown, StoreMissing
    from interlock.service.settings import BadSetting

    match error:
        case BadSetting():
            return bad_setting(error)
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
            return _told(error, error.detail, code, "internal_error")
        case ValueError() if "store URL" in str(error) or "driver is not installed" in str(error):
            return Failed(str(error), Exit.USAGE, name="bad_store_url")
        case OSError():
            detail = f"the store could not be opened: {error}"
            return _told(error, detail, Exit.UNAVAILABLE, "store_unavailable")
        case _:
            return None


def bad_setting(error: BadSetting) -> Failed:
    """How a command ends that was given a setting that cannot be used."""
    wrong = str(error)
    see = "See" if wrong.endswith("?") else "see"
    return Failed(
        f"{wrong}{' ' if see == 'See' else '; '}{see} `interlock serve --help`",
        Exit.USAGE,
        name="bad_setting",
    )


def _told(error: Exception, detail: str, code: Exit, otherwise: str) -> Failed:
    """The same problem that a server would answer with; what none knows is the one called `otherwise`."""
    from interlock.api.problem import problem
    from interlock.api.problems import translator
    from interlock.wire.codes import CODES

    known = translator(CODES["lock_busy"].status)(error) or problem(otherwise, detail)
    return Failed(in_shell(detail, known.next), code, problem={**known.document(), "detail": detail})

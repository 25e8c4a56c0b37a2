"""What can be wrong with a store or a setting, in one line with the next step.

Imported only when something went wrong: it knows the exceptions of layers that most commands never load.
"""

from __future__ import annotations

from interlock.cli.exits import Exit, Failed


def explained(error: Exception) -> Failed | None:
    """How a command ends that met this error; None for one that nobody expected."""
    from interlock.cli.spelling import as_commands
    from interlock.kernel.refusal import Fault, LockBusy, Refusal
    from interlock.kernel.storage import LockTimeout, StoreDown
    from interlock.runtime.settings import BadSetting
    from interlock.store.contract import NotAStore, SchemaTooNew, StoreMissing

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
    from interlock.api.codes import CODES
    from interlock.api.problem import problem
    from interlock.api.problems import translator

    known = translator(CODES["lock_busy"].status)(error) or problem(otherwise, detail)
    return Failed(detail, code, problem={**known.document(), "detail": detail})

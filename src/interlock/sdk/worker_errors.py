"""How a handler says what became of its work. Anything else it raises counts as `Retryable`."""

from __future__ import annotations

import traceback
from pathlib import PurePath
from typing import Any

from interlock.sdk.texts import kept_text

_FRAMES_MAX = 6
_MESSAGE_CHARACTERS_MAX = 4000
_FRAME_CHARACTERS_MAX = 500


class Retryable(Exception):
    """It did not work this time; try again while attempts last. The message is kept with the job."""


class Final(Exception):
    """It will never work; make the job a dead letter. The message is kept with the job."""


class LeaseLost(Exception):
    """The job is somebody else's by now: stop, and change nothing more on its behalf."""


def described(error: BaseException) -> dict[str, Any]:
    """An error as it is kept with the job.

    What a handler says by `Retryable` or `Final` is kept word for word. Of an unexpected error only its type
    and where it happened are: its message may hold a password or a customer's data.
    """
    if isinstance(error, Retryable | Final):
        return {"type": type(error).__name__, "message": kept_text(error, _MESSAGE_CHARACTERS_MAX)}
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES_MAX:]
    named = (f"{PurePath(frame.filename).name}:{frame.lineno} in {frame.name}" for frame in frames)
    where = [kept_text(name, _FRAME_CHARACTERS_MAX) for name in named]
    return {"type": type(error).__name__, "message": "unexpected error in the handler", "where": where}

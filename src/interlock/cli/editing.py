"""A payload in the editor of the person at the terminal."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.kernel.codec.strict import JsonValue

_EDITOR = "vi"


class Unedited(Exception):
    """There is no new payload. `draft` is what was written so far, for another try."""

    def __init__(self, why: str, draft: str | None = None) -> None:
        super().__init__(why)
        self.draft = draft


def edited(payload: object, draft: str | None = None) -> tuple[JsonValue, str]:
    """The payload as it was changed in $VISUAL or $EDITOR, and its text; begins with `draft` if there is one."""
    from interlock.kernel.codec.strict import JsonRefused, parse

    before = json.dumps(payload, indent=2, ensure_ascii=False) + "\n"
    text = _through_editor(before if draft is None else draft)
    try:
        changed = parse(text)
    except JsonRefused as refused:
        why = str(refused).removeprefix("(body): ")
        raise Unedited(f"{why}; nothing was sent, and `e` goes on with your text", _text(text)) from None
    if changed == parse(before.encode()):
        raise Unedited("the payload is the same; nothing was sent")
    return changed, _text(text)


def _through_editor(text: str) -> bytes:
    """What the editor left in a file that nobody else can read, and that is removed after."""
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or _EDITOR)
    with tempfile.TemporaryDirectory(prefix="interlock-") as folder:
        file = Path(folder) / "payload.json"
        file.write_text(text, encoding="utf-8")
        try:
            code = subprocess.run([*command, str(file)], check=False).returncode  # noqa: S603 - the person's own editor
        except OSError as error:
            missing = f"the editor {command[0]} cannot be started ({error.strerror})"
            raise Unedited(f"{missing}; set EDITOR to one that is installed") from None
        if code:
            raise Unedited(f"the editor ended with {code}; nothing was sent")
        return file.read_bytes()


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")

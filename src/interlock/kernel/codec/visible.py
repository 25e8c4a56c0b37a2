"""Which characters are visible. Invisible ones are escaped on screens and refused in names.

Python calls a character printable by its category, but some printable characters show nothing: Hangul fillers, the
blank Braille pattern, variation selectors and others. Two texts that differ only in these look the same.
"""

from __future__ import annotations

import re

# Printable by category, but blank or invisible: default-ignorable letters and marks, and two blank symbols.
_BLANK = (
    "\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180d\\u180f\\u2800\\u3164\\ufe00-\\ufe0f\\uffa0"
    "\\U00016fe4\\U0001d159\\U000e0100-\\U000e01ef"
)
_BLANKS = re.compile(f"[{_BLANK}]")


def is_visible(text: str) -> bool:
    """Whether every character can be seen, or is a plain space: no control, bidi, invisible or blank-looking one."""
    return text.isprintable() and (text.isascii() or _BLANKS.search(text) is None)


def spelled_out(text: str) -> str:
    """The text with every character that cannot be seen written as JSON would escape it: `\\u3164`."""
    if is_visible(text):
        return text
    return text.translate({ord(char): _escaped(char) for char in set(text) if not is_visible(char)})


def unseen_in(text: str) -> list[str]:
    """The characters that cannot be seen, each once, as `U+200B`."""
    return [f"U+{ord(char):04X}" for char in dict.fromkeys(text) if not is_visible(char)]


def _escaped(char: str) -> str:
    number = ord(char)
    if number > 0xFFFF:
        high, low = divmod(number - 0x10000, 0x400)
        return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
    return f"\\u{number:04x}"

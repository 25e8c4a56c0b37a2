"""How large a regular expression becomes when it is compiled.

RE2 matches without backtracking, but its time grows with the program it compiles, and counted repetition
makes a short pattern a large program: `(.{1,100}){1,10}` took 20 s on a megabyte. So each pattern is weighed,
never below the number of instructions that RE2 would need for it.
"""

from __future__ import annotations

import re

WEIGHT_MAX = 10_000_000  # far beyond what RE2 compiles; further counting would say nothing more

# A character class of Unicode names hundreds of ranges; "any character" is ten instructions in UTF-8.
_UNICODE_CLASS = 4000
_ANY_CHARACTER = 16
_ONE_CHARACTER = 2

_NEGATION = re.compile(r"^\[\^|\\[DWSPC]|\[:\^")
_TOKEN = re.compile(
    r"""(?P<unicode>\\[pP](?:\{[^}]*\}|.))
      | (?P<quoted>\\Q.*?(?:\\E|$))
      | (?P<negated>\\[DWSC])
      | (?P<escape>\\.)
      | (?P<klass>\[\^?\]?(?:\\[pP](?:\{[^}]*\}|.)|\\.|\[:[^\]]*:\]|[^\]\\])*\]?)
      | (?P<open>\()
      | (?P<close>\))
      | (?P<counted>\{(?P<low>[0-9]+)(?:,(?P<high>[0-9]*))?\})
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)


def weight(pattern: str) -> int:
    """An upper bound of the number of instructions in the compiled pattern."""
    groups = [0]
    last = 0  # the weight of what a repetition would repeat
    for token in _TOKEN.finditer(pattern):
        kind = token.lastgroup
        if kind == "open":
            groups.append(0)
            last = 0
            continue
        if kind == "close" and len(groups) > 1:
            last = groups.pop() + _ONE_CHARACTER
        elif token.group("counted"):
            last, repeated = last * _times(token), last
            groups[-1] -= repeated
        else:
            last = _atom(token.group(), kind)
        groups[-1] = min(groups[-1] + last, WEIGHT_MAX)
    folded = 2 if "(?" in pattern else 1  # a flag such as (?i) doubles the letters
    return min(sum(groups) * folded + _ONE_CHARACTER, WEIGHT_MAX)


def _times(token: re.Match[str]) -> int:
    # RE2 refuses a count above 1000; a larger one here only weighs more.
    counts = [int(digits[:6]) for digits in (token.group("low"), token.group("high")) if digits]
    return max(*counts, 1, 1) + 1


def _atom(text: str, kind: str | None) -> int:
    match kind:
        case "unicode":
            return _UNICODE_CLASS
        case "klass":
            named = text.count("\\p") + text.count("\\P")
            is_plain = text.isascii() and not _NEGATION.search(text)
            ranges = _ONE_CHARACTER * len(text) if is_plain else _ANY_CHARACTER * len(text)
            return ranges + named * _UNICODE_CLASS
        case "negated":
            return _ANY_CHARACTER
        case "quoted":
            return _ONE_CHARACTER * len(text.encode(errors="replace"))
        case _:
            return _ANY_CHARACTER if text == "." else _ONE_CHARACTER * len(text.encode(errors="replace"))

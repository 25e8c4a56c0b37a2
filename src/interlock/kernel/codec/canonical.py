"""The canonical form of a JSON value (RFC 8785), and its digest.

Two values have the same canonical form exactly if they are the same JSON, so its digest binds a decision to what was
decided. The `rfc8785` package is the reference. It is slow, so values that `msgspec` encodes identically use that
encoder; a property test compares the two.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# Values with a canonical form: like `strict.JsonValue`, but a `dict[str, str]` or a tuple inside it fits too.
JsonLike: TypeAlias = (
    "bool | int | float | str | msgspec.Raw | Sequence[JsonLike] | Mapping[str, JsonLike] | None"
)

INTEGER_MAX = 2**53 - 1
_DOMAIN = re.compile(r"[a-z0-9][a-z0-9._/-]{0,63}")
_sorting = msgspec.json.Encoder(order="deterministic")


class NotCanonical(ValueError):
    """The value has no canonical form: it is not JSON, or holds a number or string that JSON cannot carry."""


def canonical(value: JsonLike) -> bytes:
    """Spell `value` in the only way RFC 8785 allows. A `Raw` inside is canonical already, and stands for itself."""
    try:
        return _sorting.encode(value) if _is_plain(value) else _reference(value)
    except (ValueError, RecursionError) as error:
        raise NotCanonical(f"no canonical JSON form: {error}") from error


def digest(domain: str, value: JsonLike) -> str:
    """Name `value` by its content: `sha256:…` over `interlock:<domain>`, a newline, and the canonical form.

    The domain keeps apart digests of different things that happen to have the same fields.
    """
    if not _DOMAIN.fullmatch(domain):
        raise ValueError(f"{domain!r} is not a digest domain; use lower-case words such as job/v1")
    return "sha256:" + hashlib.sha256(b"interlock:%b\n" % domain.encode() + canonical(value)).hexdigest()


def _reference(value: JsonLike) -> bytes:
    import rfc8785  # only values out of the ordinary need it, so start-up does not pay for it

    return rfc8785.dumps(cast("Any", value))


def _is_plain(value: object) -> bool:
    """Tell whether msgspec spells `value` as RFC 8785 does.

    It differs in whole, huge and tiny floats (`1.0`, `1e20`, `1e-6`), and it sorts keys by code point, not
    by UTF-16 unit.
    """
    waiting = [value]
    for item in waiting:  # grows as it goes: one flat loop costs half of what recursion does
        kind = type(item)
        if kind is dict:
            fields = cast("dict[object, object]", item)
            if not _are_ascii(fields):
                return False
            waiting.extend(fields.values())
        elif kind is list:
            waiting.extend(cast("list[object]", item))
        elif kind is not str and kind is not msgspec.Raw and not _is_plain_scalar(item):
            return False
    return True


def _are_ascii(keys: Iterable[object]) -> bool:
    try:
        return "".join(cast("Iterable[str]", keys)).isascii()
    except TypeError:  # a key that is not a string; the reference says so
        return False


def _is_plain_scalar(value: object) -> bool:
    kind = type(value)
    if kind is int:
        return -INTEGER_MAX <= cast("int", value) <= INTEGER_MAX
    if kind is float:
        number = cast("float", value)
        return 1e-4 <= abs(number) <= INTEGER_MAX and not number.is_integer()
    return value is None or kind is bool

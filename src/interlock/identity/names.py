"""Names of principals: how they may be spelled, and when two spellings are one name.

`ann` and `Ann` are one name: people cannot tell whom a vote is from otherwise. The first spelling that a tenant uses,
for a principal or for somebody's owner, is the one it keeps.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from interlock.identity.model import PRINCIPAL_NAMES, PRINCIPALS, PrincipalName
from interlock.identity.refusals import NameTaken, NameUnreadable
from interlock.kernel.record import Reads
from interlock.kernel.world import World

# Letters and marks to Unicode that no font shows: fillers, joiners and what chooses between two forms of a letter.
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | {
    chr(code) for code in (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))
}


@lru_cache(maxsize=4096)
def folded(name: str) -> str:
    """What all spellings of a name have in common, in whatever case and form its characters are."""
    if name.isascii():
        return name.lower()
    once = unicodedata.normalize("NFKC", name).casefold()
    return unicodedata.normalize("NFKC", once).casefold()


def all_folded(names: Iterable[str]) -> frozenset[str]:
    """Names as they are compared."""
    return frozenset(map(folded, names))


def name_reads(tenant: str, name: str) -> Reads:
    """What `keep_name` decides on."""
    return Reads(own=(PRINCIPAL_NAMES.key(tenant, folded(name)),), see=(PRINCIPALS.key(tenant, name),))


def keep_name(world: World, tenant: str, name: str) -> None:
    """Keep this spelling of the name, or refuse it because another one is kept.

    Whoever was here under both spellings before names were kept goes on with them.
    """
    kept = world.get(PRINCIPAL_NAMES, tenant, folded(name))
    if kept is not None and kept.name == name:
        return
    if world.get(PRINCIPALS, tenant, name) is not None:
        return
    _check_readable(name)
    if kept is not None:
        raise NameTaken(name, kept.name)
    world.put(PRINCIPAL_NAMES, PrincipalName(tenant=tenant, id=folded(name), name=name))


def _check_readable(name: str) -> None:
    """Nothing in a name is unseen, turns what stands beside it, or ends a line. Systems have users with spaces."""
    seen = (
        each == " " or (unicodedata.category(each)[0] not in "CZ" and each not in _UNSEEN) for each in name
    )
    if not name.strip() or not all(seen):
        raise NameUnreadable(name)

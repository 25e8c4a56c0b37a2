"""How a server that decides thousands of times a second lives with the garbage collector."""

from __future__ import annotations

import gc

# A decision makes some sixty containers and no cycles, so collecting every few hundred of them finds nothing.
_YOUNG_MAX = 20_000


def settle_memory() -> None:
    """Leave what start-up made out of every collection, and collect less often: call it once, when all is open."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_MAX, *gc.get_threshold()[1:])

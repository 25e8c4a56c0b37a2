"""A store may send many values together; whatever the texts hold, they come back one by one."""

from __future__ import annotations

import pytest

from interlock.kernel.record import Kind, Reads
from interlock.kernel.storage import Loaded
from interlock.kernel.world import Changes, Update
from tests.conformance.test_stores import carrying, changes
from tests.harness.store_places import Place
from tests.kernel.counter_room import TENANT, Counter

AWKWARD = Kind(
    "awkward", Counter, table="principals", columns=("kind",), values=lambda counter: (counter.id,)
)


@pytest.mark.parametrize(
    "names",
    [
        ("a", "b"),
        ("",),
        ("", "a"),
        ("\x1f",),
        ("a\x1fb", "c"),
        ("\x1e",),
        ("a", "\x1e"),
        ("{", '"', "\\", "NULL"),
    ],
)
async def test_texts_that_look_like_separators_stay_what_they_are(
    place: Place, names: tuple[str, ...]
) -> None:
    store = place.store()
    await store.open()
    try:
        written = [Counter(tenant=TENANT, id=name, count=1, version=1) for name in names]
        await store.transact(carrying(changes(*((AWKWARD, record) for record in written))))
        raised = [Counter(tenant=TENANT, id=name, count=2, version=2) for name in names]
        loads: list[Loaded] = []

        def raise_all(loaded: Loaded) -> Changes:
            loads.append(loaded)
            return changes(updates=tuple(Update(AWKWARD, record, 1) for record in raised))

        keys = Reads(own=tuple(AWKWARD.key(TENANT, name) for name in names))
        await store.transact(carrying(raise_all, batch_id="batch_2", reads=keys))
        assert sorted(map(str, loads[0].records.values())) == sorted(map(str, written))
        assert [await store.get(AWKWARD, TENANT, name) for name in names] == raised
    finally:
        await store.close()

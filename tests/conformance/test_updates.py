"""What an update leaves in the columns, on every store."""

from __future__ import annotations

from interlock.kernel.record import Reads
from interlock.kernel.storage import Loaded, Store
from interlock.kernel.world import Changes, Update
from tests.conformance.test_stores import LONG_AGO, carrying, changes
from tests.kernel.counter_room import CHORES, TENANT, Chore, DueChores


async def test_a_record_is_found_by_what_an_update_made_of_it(store: Store) -> None:
    before = Chore(tenant=TENANT, id="a", due=10**17, version=1)
    await store.transact(carrying(changes((CHORES, before))))
    after = Chore(tenant=TENANT, id="a", due=LONG_AGO, taken_by="w", version=2)
    update = Update(CHORES, after, version_before=1, before=before)
    await store.transact(carrying(changes(updates=(update,)), batch_id="batch_2"))
    loaded: list[Loaded] = []

    def look(found: Loaded) -> Changes:
        loaded.append(found)
        return changes()

    await store.transact(
        carrying(look, reads=Reads(picks=(DueChores(limit=5, own=False),)), batch_id="batch_3")
    )
    assert [list(records) for _, records in loaded[0].picked] == [[after]]

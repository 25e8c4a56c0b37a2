"""One batch on SQLite together with what other processes ask for (asking.py), in one transaction.

They are guests: if anything is wrong with them, or one of them was withdrawn meanwhile, the batch goes without them.
"""

from __future__ import annotations

from interlock.kernel.storage import Transaction
from interlock.store.sqlite.batch import SqliteBatches
from interlock.store.sqlite.write_lock import WriterLock


class GuestsFailed(Exception):
    """Roll back and begin again without them."""


def decide_and_write(
    batches: SqliteBatches, lock: WriterLock, transaction: Transaction, *, alone: bool
) -> bool:
    """Between BEGIN and COMMIT; whether there is anything to commit."""
    company = transaction.company
    requests = [] if alone or company is None else lock.take_along()
    if company is None or not requests:
        return batches.decide_and_write(transaction, transaction.reads)
    try:
        has_changes = batches.decide_and_write(transaction, company.take_along(requests))
        if lock.promise():
            return has_changes
        why = None
    except Exception as error:  # noqa: BLE001 - whatever it was, the batch may do without its guests
        why = error
    company.take_along(())
    raise GuestsFailed from why

"""CTRLRun's approve-and-execute path: propose, approve, execute under the approval. Prints actions a second.

Usage: ctrlrun_path.py STORE COUNT THREADS, where STORE is a file or a postgresql:// URL.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

from ctrlrun import (
    ApprovalRequired,
    Control,
    Policy,
    ScriptedApprovalProvider,
    SQLiteStateStore,
    context,
    protect,
    with_approval,
)

POLICY = """
schema: ctrlrun.policy/v1
actions:
  finance.payment:
    decision: approve
"""


def main() -> None:
    where, count, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if where.startswith("postgresql"):
        from ctrlrun.postgres import PostgresStateStore

        store = PostgresStateStore(where)
    else:
        store = SQLiteStateStore(where)
    approvals = ScriptedApprovalProvider(store, ["grant"] * count, approver="human:ann")
    control = Control(Policy.from_yaml(POLICY, source="<bench>"), store, approvals)

    @protect("finance.payment", effect="pay:{invoice}", control=control)
    def pay(invoice: str, amount: int) -> str:
        return invoice

    def one(number: int) -> None:
        with context(agent="bot"):
            try:
                pay(invoice=f"inv-{number}", amount=25000)
            except ApprovalRequired as asked:
                approvals.wait(asked.request_id, None)
                with with_approval(asked.request_id):
                    pay(invoice=f"inv-{number}", amount=25000)

    started = perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(one, range(count)))
    print(count / (perf_counter() - started))
    store.close()


if __name__ == "__main__":
    main()

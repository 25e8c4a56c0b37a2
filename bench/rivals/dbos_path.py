"""DBOS with an approval as recv/send: a workflow asks, a person sends, a step executes. Prints actions a second.

Usage: dbos_path.py DATABASE_URL COUNT THREADS.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

from dbos import DBOS, DBOSConfig


@DBOS.step()
def pay(invoice: str) -> str:
    return invoice


@DBOS.workflow()
def payment(invoice: str) -> str:
    if DBOS.recv("approval", timeout_seconds=60) != "yes":
        raise RuntimeError("not approved")
    return pay(invoice)


def main() -> None:
    url, count, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    config: DBOSConfig = {"name": "bench", "system_database_url": url, "log_level": "ERROR"}
    DBOS(config=config)
    DBOS.launch()

    def one(number: int) -> None:
        handle = DBOS.start_workflow(payment, f"inv-{number}")
        DBOS.send(handle.workflow_id, "yes", "approval")
        handle.get_result()

    started = perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(one, range(count)))
    print(count / (perf_counter() - started))
    DBOS.destroy()


if __name__ == "__main__":
    main()

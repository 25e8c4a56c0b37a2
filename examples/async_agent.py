"""An async agent refunds several customers at once: one that waits for a person holds nobody else up.

What it refunds stands below as a list; in earnest it comes from a ticket system, or from a language model.

    $ interlock init                                # a policy: up to 100.00 passes, more waits for a person
    $ AGENT=$(interlock key create support-bot --kind agent --roles submit)
    $ ANN=$(interlock key create ann --kind person --roles review)
    $ interlock serve > serve.log 2>&1 &
    $ export INTERLOCK_URL=http://127.0.0.1:8700
    $ INTERLOCK_KEY=$AGENT python3 async_agent.py &
    $ INTERLOCK_KEY=$ANN interlock review           # in another terminal; answer y
    ticket 17: 20.00 went back to mia
    ticket 18: 35.50 went back to noor
    ticket 19: 480.00 went back to sam
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from interlock import AsyncInterlock, Denied, Expired, Rejected, StillPending

TICKETS = [(19, "sam", 48_000), (17, "mia", 2_000), (18, "noor", 3_550)]
WAIT_SECONDS = 600


def book(line: str) -> None:
    """Your bank goes here."""
    with Path("bank.txt").open("a") as bank:
        bank.write(f"{line}\n")


async def main() -> None:
    """Refund every ticket, each in a task of its own."""
    async with AsyncInterlock() as il:  # the server and the key that INTERLOCK_URL and INTERLOCK_KEY name

        @il.gate("finance.payment.execute", key=lambda ticket, **_: f"refund-{ticket}", wait=WAIT_SECONDS)
        async def refund(ticket: int, customer: str, amount_cents: int) -> str:
            """Give money back. It runs at most once for each ticket, whatever becomes of this process."""
            await asyncio.to_thread(book, f"{ticket} {customer} {-amount_cents}")
            return f"{amount_cents / 100:.2f} went back to {customer}"

        async def handle(ticket: int, customer: str, amount_cents: int) -> None:
            try:
                print(f"ticket {ticket}: {await refund(ticket, customer, amount_cents)}", flush=True)
            except StillPending as held:
                print(
                    f"ticket {ticket}: nobody decided in time; {held.job_id} goes on waiting, start me again"
                )
            except (Denied, Rejected, Expired) as no:
                print(f"ticket {ticket}: {no.for_agent()}")

        async with asyncio.TaskGroup() as tasks:
            for ticket in TICKETS:
                tasks.create_task(handle(*ticket))


asyncio.run(main())

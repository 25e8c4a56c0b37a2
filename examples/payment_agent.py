"""An agent pays what its plan says: small payments at once, a large one after a person agreed.

The plan stands below as a list; a language model would make it in earnest. What matters is the same: the agent
proposes, policy and people decide, and each payment is made once, however often the agent is started.

    $ interlock init                                # a policy: up to 100.00 passes, more waits for a person
    $ AGENT=$(interlock key create payer --kind agent --roles submit)
    $ ANN=$(interlock key create ann --kind person --roles review)
    $ interlock serve > serve.log 2>&1 &
    $ export INTERLOCK_URL=http://127.0.0.1:8700
    $ INTERLOCK_KEY=$AGENT python3 payment_agent.py &
    $ INTERLOCK_KEY=$ANN interlock review           # in another terminal; answer y
    inv-1: paid 50.00 EUR
    inv-2: paid 250.00 EUR
"""

from __future__ import annotations

from pathlib import Path

from interlock import Ambiguous, Denied, Expired, Interlock, Rejected

PLAN = [("inv-1", 5_000), ("inv-2", 25_000)]


with Interlock() as il:  # the server and the key that INTERLOCK_URL and INTERLOCK_KEY name

    @il.gate("finance.payment.execute", env="production", key=lambda invoice, **_: invoice)
    def pay(invoice: str, amount_cents: int, *, currency: str = "EUR") -> str:
        """Pay one invoice. What the decorator has approved is what arrives here."""
        with Path("bank.txt").open("a") as bank:  # your bank goes here; hand it il.current().downstream_key
            bank.write(f"{invoice} {amount_cents} {currency}\n")
        return f"paid {amount_cents / 100:.2f} {currency}"

    for invoice, amount_cents in PLAN:
        try:
            print(f"{invoice}: {pay(invoice, amount_cents)}")
        except (Denied, Rejected, Expired) as no:
            print(f"{invoice}: {no.for_agent()}")  # says why, in words that a model can be shown
        except Ambiguous as doubt:
            print(f"{invoice}: perhaps paid, so it is not tried again: {doubt}")

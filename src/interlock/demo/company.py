"""The people and the agent of the demo, and their policy."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any

from interlock.demo.stage import Actor, Stage, StageBroken

if TYPE_CHECKING:
    from interlock.demo.story import Answer

PAYMENT = "finance.payment.execute"
REFUND = "finance.refund.execute"


def policy_text(*, asks_above_cents: int = 10_000) -> str:
    """The company's policy; `asks_above_cents` is what somebody changes under a pending request."""
    text = resources.files("interlock.demo").joinpath("policy.yaml").read_text(encoding="utf-8")
    return text.replace("> 10000", f"> {asks_above_cents}")


class Company:
    """Mia owns the agent that pays; Noor and Omar are in finance, and so is she."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.admin: Actor = stage.admin
        applied = self.admin.put_policy(policy_text())
        if applied.status != 200:
            raise StageBroken(f"the policy was refused: {applied.body}")
        self.mia = stage.cast("mia", groups=["finance"])
        self.noor = stage.cast("noor", groups=["finance"])
        self.omar = stage.cast("omar", groups=["finance"])
        self.agent = stage.cast("payer", kind="agent", roles=["submit"], owner="mia")

    def propose_payment(self, cents: int, *, key: str | None = None, to: str = "Acme Ltd") -> Answer:
        """The agent asks to pay somebody."""
        return self.propose(PAYMENT, {"amount_cents": cents, "to": to}, key=key)

    def propose(self, topic: str, payload: dict[str, Any], *, key: str | None = None) -> Answer:
        """The agent asks to do something in production."""
        return self.agent.post("jobs", {"topic": topic, "env": "production", "payload": payload}, key=key)

"""Claims on an unsteady line, on a virtual clock: the execution id is all that names one."""

from __future__ import annotations

import pytest

from interlock.sdk.operations.grants import claim_grant
from interlock.sdk.outcomes import Ambiguous
from interlock.sdk.session import Session
from tests.sdk.virtual_time import Script, VirtualTime, cut, refused, success


def test_a_claim_is_sent_again_under_its_execution_id_and_leaves_no_answer_behind() -> None:
    script = Script(cut(), success(claimed=True))
    use = VirtualTime(script).run(claim_grant(Session(fraction=lambda: 0.5), "deploy", execution_id="e-1"))
    assert use.claimed
    (_, first), (_, second) = script.sent
    assert (first.body, first.headers) == (second.body, second.headers)
    assert "idempotency-key" not in first.headers


def test_a_claim_that_may_have_won_says_how_to_settle_it() -> None:
    with pytest.raises(Ambiguous, match="execution_id='e-1' tells") as caught:
        VirtualTime(Script(cut(), refused())).run(claim_grant(Session(), "deploy", execution_id="e-1"))
    assert caught.value.key == "e-1"

"""An attempt that could not be answered in time would leave doubt where there is none; so it is not made."""

from __future__ import annotations

import pytest

from interlock.sdk.flow import Request, Response
from interlock.sdk.outcomes import Busy, Unavailable
from interlock.sdk.retry import RetryPolicy
from interlock.sdk.session import Session, exchange
from tests.sdk.virtual_time import Script, VirtualTime, problem

KEYED = Request(method="POST", path="/api/v1/jobs", headers={"idempotency-key": "k"}, body=b"{}")


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [(problem(409, "lock_busy"), Busy), (problem(503, "store_unavailable"), Unavailable)],
)
def test_an_attempt_that_would_be_cut_off_before_its_answer_is_not_begun(
    answer: Response, outcome: type[Exception]
) -> None:
    # The service answers after two seconds each time; a third attempt would have one and a half.
    session = Session(retry=RetryPolicy(deadline_seconds=5.5), fraction=lambda: 0.0)
    script = Script(answer, latency=2.0)
    with pytest.raises(outcome):
        VirtualTime(script).run(exchange(session, KEYED))
    assert len(script.sent) == 2

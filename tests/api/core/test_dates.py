"""Every answer says when it was sent, refusals and what is not even HTTP included."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime

import pytest

from interlock.api.wire import date_line
from tests.api.core.wire import Wire


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/api/v1/things/vase"), ("GET", "/nowhere"), ("BREW", "/nowhere")]
)
async def test_an_answer_says_when_it_was_sent(wire: Wire, method: str, path: str) -> None:
    answered = await wire.ask(method, path)
    sent_at = parsedate_to_datetime(answered.headers["date"])
    assert abs(datetime.now(UTC) - sent_at) < timedelta(minutes=10)


@pytest.mark.parametrize("second", [0, 951_782_399, 951_825_600, 1_794_833_640, 4_102_444_799])
def test_a_date_is_spelled_as_http_does(second: int) -> None:
    spelled = format_datetime(datetime.fromtimestamp(second, UTC), usegmt=True)
    assert date_line(second) == f"date: {spelled}\r\n"

"""A setting that could not work is refused at the start, with its name and what it may be."""

from __future__ import annotations

import pytest

from interlock.service.settings import BadSetting, settings_from

LARGEST = {
    "idempotency_days": "36500",
    "event_days": "36500",
    "retry_most_seconds": "31536000",
    "webhook_retry_most_seconds": "31536000",
    "relay_lease_seconds": "86400",
    "webhook_timeout_seconds": "3600",
    "acquire_seconds": "3600",
    "sweep_seconds": "86400",
    "drain_seconds": "3600",
    "stalled_seconds": "3600",
}


@pytest.mark.parametrize("name", LARGEST)
def test_a_length_of_time_has_an_end_that_can_be_reckoned_with(name: str) -> None:
    variable = f"INTERLOCK_{name.upper()}"
    endless = "999999999" if name.endswith("_days") else "inf"

    assert getattr(settings_from({variable: LARGEST[name]}), name) == float(LARGEST[name])
    for value in (endless, f"{LARGEST[name]}1", "0" if name != "drain_seconds" else "-1"):
        with pytest.raises(BadSetting, match=name):
            settings_from({variable: value})


@pytest.mark.parametrize("value", ["nan", "-1", "soon", ""])
def test_what_is_no_length_of_time_is_refused_unless_it_is_left_empty(value: str) -> None:
    environ = {"INTERLOCK_ACQUIRE_SECONDS": value}
    if not value:
        assert settings_from(environ).acquire_seconds == 2.0
        return
    with pytest.raises(BadSetting, match="acquire_seconds"):
        settings_from(environ)

"""Waiting for a job, on a virtual clock."""

from __future__ import annotations

from urllib.parse import parse_qs

import pytest

from interlock.sdk.flow import Flow, Request
from interlock.sdk.operations.jobs import HOLD_SECONDS, Until, call, wait
from interlock.sdk.outcomes import NotFound, StillPending, Unavailable
from interlock.sdk.session import Session
from interlock.wire.jobs import Job
from tests.sdk.virtual_time import Answered, Script, VirtualTime, problem, refused, success

BEGIN = 1000.0


class Service:
    """One job whose state changes with time; `holds` says whether it knows long polls."""

    def __init__(self, *changes: tuple[float, str], holds: bool = True, strict: bool = False) -> None:
        self.changes = changes
        self.holds = holds
        self.strict = strict
        self.down: tuple[float, float] = (0.0, 0.0)
        self.asked: list[float] = []

    def state(self, at: float) -> str:
        return [state for since, state in self.changes if at >= BEGIN + since][-1]

    def __call__(self, request: Request, at: float) -> tuple[float, Answered]:
        self.asked.append(at - BEGIN)
        if self.down[0] <= at - BEGIN < self.down[1]:
            return 0.0, refused()
        query = parse_qs(request.query)
        if query and self.strict:
            return 0.0, problem(400, "invalid_request")
        hold = float(query["wait_seconds"][0]) if query and self.holds else 0.0
        over = {"APPROVAL"} if query and query["until"] == ["decided"] else {"APPROVAL", "PENDING", "RUNNING"}
        news = [since + BEGIN for since, state in self.changes if state not in over]
        held = min([hold, *(moment - at for moment in news if moment >= at)])
        return held, success(id="job_1", state=self.state(at + held), job_hash="sha256:0")


def waited(service: Service, *, timeout: float | None = None, until: Until = "finished") -> tuple[Job, float]:
    time = VirtualTime(service, start=BEGIN)
    flow: Flow[Job] = wait(Session(fraction=lambda: 0.5), "job_1", timeout=timeout, until=until)
    return time.run(flow), time.now - BEGIN


def test_a_finished_job_is_returned_at_once() -> None:
    service = Service((0, "SUCCEEDED"))
    assert waited(service)[0].state == "SUCCEEDED"
    assert len(service.asked) == 1


def test_a_long_poll_ends_the_moment_there_is_news() -> None:
    job, elapsed = waited(Service((0, "APPROVAL"), (3600.25, "PENDING")), until="decided")
    assert (job.state, elapsed) == ("PENDING", 3600.25)


def test_a_long_poll_is_asked_no_more_often_than_it_is_held() -> None:
    service = Service((0, "PENDING"), (3600, "SUCCEEDED"))
    waited(service)
    assert len(service.asked) <= 3600 / HOLD_SECONDS + 2


def test_decided_does_not_wait_for_the_work_and_finished_does() -> None:
    changes = ((0, "APPROVAL"), (5, "PENDING"), (9, "SUCCEEDED"))
    assert waited(Service(*changes), until="decided") == (
        Job(id="job_1", state="PENDING", job_hash="sha256:0"),
        5,
    )
    assert waited(Service(*changes), until="finished")[1] == 9


@pytest.mark.parametrize("strict", [False, True], ids=["ignores the parameters", "refuses the parameters"])
def test_a_service_without_long_polls_is_asked_slowly(strict: bool) -> None:
    service = Service((0, "APPROVAL"), (600, "PENDING"), holds=False, strict=strict)
    job, elapsed = waited(service, until="decided")
    assert job.state == "PENDING"
    assert 600 <= elapsed <= 616
    assert len(service.asked) < 85


def test_refused_parameters_are_not_tried_again() -> None:
    service = Service((0, "APPROVAL"), (60, "PENDING"), holds=False, strict=True)
    session = Session(fraction=lambda: 0.5)
    time = VirtualTime(service, start=BEGIN)
    time.run(wait(session, "job_1", until="decided"))
    assert not session.long_polls


def test_time_that_is_up_is_still_pending_and_says_how_to_resume() -> None:
    service = Service((0, "APPROVAL"))
    time = VirtualTime(service, start=BEGIN)
    with pytest.raises(StillPending) as caught:
        time.run(wait(Session(), "job_1", timeout=45))
    assert caught.value.job_id == "job_1"
    assert "wait('job_1')" in str(caught.value)
    assert time.now - BEGIN == pytest.approx(45, abs=1)


@pytest.mark.parametrize("holds", [True, False])
def test_no_wait_outlasts_its_time(holds: bool) -> None:
    for timeout in (0.0, 0.3, 1.0, 7.5, 61.0):
        service = Service((0, "APPROVAL"), holds=holds)
        time = VirtualTime(service, start=BEGIN)
        with pytest.raises(StillPending):
            time.run(wait(Session(), "job_1", timeout=timeout))
        assert timeout - 1e-6 <= time.now - BEGIN <= timeout + 1


def test_news_at_the_last_moment_are_seen() -> None:
    service = Service((0, "APPROVAL"), (9.9, "PENDING"), holds=False)
    assert waited(service, timeout=10, until="decided")[0].state == "PENDING"


def test_looking_once_takes_no_time() -> None:
    service = Service((0, "APPROVAL"))
    with pytest.raises(StillPending):
        waited(service, timeout=0)
    assert service.asked == [0]


def test_a_wait_survives_an_outage_without_hammering() -> None:
    service = Service((0, "APPROVAL"), (600, "PENDING"))
    service.down = (50, 350)
    job, elapsed = waited(service, until="decided")
    assert (job.state, elapsed) == ("PENDING", 600)
    asked_while_down = [at for at in service.asked if 50 <= at < 350]
    assert len(asked_while_down) <= 60


def test_a_wait_that_ends_during_an_outage_says_unavailable_not_pending() -> None:
    service = Service((0, "APPROVAL"))
    service.down = (5, 1e9)
    time = VirtualTime(service, start=BEGIN)
    with pytest.raises(Unavailable):
        time.run(wait(Session(), "job_1", timeout=100))
    assert time.now - BEGIN <= 131


def test_a_service_that_was_never_there_is_not_waited_for() -> None:
    service = Service((0, "APPROVAL"))
    service.down = (0, 1e9)
    with pytest.raises(Unavailable):
        waited(service)


def test_an_unknown_job_is_not_waited_for() -> None:
    with pytest.raises(NotFound):
        VirtualTime(lambda *_: (0.0, problem(404, "not_found"))).run(wait(Session(), "job_x"))


def test_any_route_may_be_held_for_longer_than_an_attempt_may_take() -> None:
    script = Script(success(lease_id="lse_1"), latency=120.0)
    held = call(Session(), "POST", "leases", body={"wait_seconds": 150}, hold_seconds=150)
    assert VirtualTime(script).run(held) == {"lease_id": "lse_1"}
    assert script.requests[0].timeout_seconds >= 150

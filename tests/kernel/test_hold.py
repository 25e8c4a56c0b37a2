"""The one hold: renewed in time, lost by the holder's own clock, told once, stopped promptly."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from interlock.kernel import hold
from interlock.kernel.hold import HoldState, RenewalTask, RenewalThread, keep

HANG_SECONDS = 30
LEASE = 30.0


class Refused(Exception):
    """The service's final no."""


class Trouble(Exception):
    """What may pass."""


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(hold, "time", made)
    return made


def state_of(lease_seconds: float, sent_at: float, on_lost: Callable[[], object] = lambda: None) -> HoldState:
    return HoldState(lease_seconds, sent_at, is_final=lambda why: isinstance(why, Refused), on_lost=on_lost)


def test_it_is_held_for_one_lease_from_when_the_request_was_sent(clock: Clock) -> None:
    state = state_of(LEASE, clock.now - 10)
    assert (state.seconds_left, state.is_lost) == (LEASE - 10, False)
    clock.now += LEASE - 10
    assert (state.seconds_left, state.is_lost) == (0, True)


def test_a_renewal_counts_from_when_it_was_sent_however_late_its_answer(clock: Clock) -> None:
    state = state_of(LEASE, clock.now)
    with state.renewal():
        clock.now += 20
    assert state.seconds_left == LEASE - 20


def test_answers_that_cross_do_not_shorten_it(clock: Clock) -> None:
    state = state_of(LEASE, clock.now)
    with state.renewal():
        clock.now += 5
        with state.renewal():
            clock.now += 5
    assert state.seconds_left == LEASE - 5


def test_it_is_renewed_at_a_third_of_the_lease(clock: Clock) -> None:
    state = state_of(LEASE, clock.now)
    assert (state.rest_seconds, state.is_due) == (LEASE / 3, False)
    clock.now += LEASE / 3
    assert (state.rest_seconds, state.is_due) == (0, True)


def test_a_renewal_that_got_no_answer_is_tried_again_soon_and_not_beyond_the_lease(clock: Clock) -> None:
    state = state_of(LEASE, clock.now)
    state.failed(Trouble())
    assert (state.rest_seconds, state.is_lost) == (1, False)
    clock.now += LEASE - 0.5
    assert state.rest_seconds == 0.5
    with state.renewal():
        pass
    assert state.rest_seconds == LEASE / 3


def test_a_clock_that_goes_back_does_not_put_off_a_renewal(clock: Clock) -> None:
    state = state_of(LEASE, clock.now)
    clock.now -= 3600
    assert state.rest_seconds == LEASE / 3


def test_a_refusal_loses_it_at_once_and_for_ever(clock: Clock) -> None:
    told: list[str] = []
    state = state_of(LEASE, clock.now, lambda: told.append("lost"))
    refused = Refused()
    with state.renewal():  # an answer that arrives behind the refusal
        state.failed(refused)
        assert told == ["lost"]
    assert (state.is_lost, state.seconds_left, state.refusal) == (True, 0, refused)


def test_no_late_answer_brings_back_what_was_found_lost(clock: Clock) -> None:
    state = state_of(LEASE, clock.now)
    clock.now += LEASE - 1
    with state.renewal():
        clock.now += 2
        assert state.is_lost
    assert (state.is_lost, state.seconds_left) == (True, 0)


def test_a_loss_is_told_once_however_many_find_out_at_once(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    state = state_of(LEASE, clock.now - LEASE, lambda: told.append("lost"))
    # All of them have seen that it is not lost yet by the time the first learns what the clock says.
    meeting = threading.Barrier(8)
    read_clock = clock.monotonic
    monkeypatch.setattr(clock, "monotonic", lambda: (meeting.wait(HANG_SECONDS), read_clock())[1])
    threads = [threading.Thread(target=lambda: state.is_lost) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    state.failed(Refused())
    assert state.is_over
    assert told == ["lost"]


def test_what_was_given_back_is_over_and_never_lost(clock: Clock) -> None:
    state = state_of(LEASE, clock.now, lambda: pytest.fail("told"))
    state.is_settled = True
    clock.now += LEASE
    assert (state.is_over, state.is_lost) == (True, False)


class Service:
    """What answers renewals: `answers` in turn, and well from then on."""

    def __init__(self, *answers: Exception) -> None:
        self.renewals = 0
        self._answers = list(answers)

    def renew(self) -> None:
        self.renewals += 1
        if self._answers:
            raise self._answers.pop(0)

    async def renew_in_loop(self) -> None:
        self.renew()


def kept(kind: str, service: Service, state: HoldState, until: Callable[[], bool]) -> None:
    """Hold it, by either kind of loop, until something is true."""
    deadline = time.monotonic() + HANG_SECONDS

    async def in_loop() -> None:
        async with RenewalTask(state, service.renew_in_loop):
            while not until():
                assert time.monotonic() < deadline
                await asyncio.sleep(0.005)

    if kind == "task":
        asyncio.run(in_loop())
        return
    with RenewalThread(state, service.renew):
        while not until():
            assert time.monotonic() < deadline
            time.sleep(0.005)


both = pytest.mark.parametrize("kind", ["thread", "task"])


@both
def test_it_is_renewed_again_and_again_and_trouble_does_not_end_that(kind: str) -> None:
    service = Service(Trouble(), ValueError("a bug"))
    state = state_of(3, time.monotonic())
    kept(kind, service, state, lambda: service.renewals >= 4 or state.is_lost)
    assert not state.is_lost


@both
def test_once_refused_it_is_renewed_no_more(kind: str) -> None:
    told = threading.Event()
    service = Service(Refused())
    kept(kind, service, state_of(0.3, time.monotonic(), told.set), told.is_set)
    assert service.renewals == 1


@both
def test_a_service_that_is_out_of_reach_means_lost_once_the_lease_is_over(kind: str) -> None:
    told = threading.Event()
    service = Service(*[Trouble()] * 1000)
    kept(kind, service, state_of(0.5, time.monotonic(), told.set), told.is_set)
    assert service.renewals > 1


@both
def test_what_took_long_to_acquire_is_renewed_before_it_is_relied_on(kind: str) -> None:
    service = Service()
    state = state_of(LEASE, time.monotonic() - LEASE)
    kept(kind, service, state, lambda: True)
    assert (service.renewals, state.is_lost) == (1, False)
    with pytest.raises(Refused):
        kept(
            kind, Service(Refused()), state_of(LEASE, time.monotonic() - LEASE), lambda: pytest.fail("begun")
        )


def test_a_thread_that_rests_stops_when_told() -> None:
    renewing = RenewalThread(state_of(3600, time.monotonic()), lambda: None)
    renewing.start()
    renewing.stop()
    assert not renewing._thread.is_alive()


def test_a_renewal_that_hangs_does_not_keep_the_holder_from_stopping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hold, "_JOIN_SECONDS", 0.05)
    hangs, end = threading.Event(), threading.Event()

    def renew() -> None:
        hangs.set()
        end.wait(HANG_SECONDS)

    renewing = RenewalThread(state_of(0.3, time.monotonic()), renew)
    renewing.start()
    assert hangs.wait(HANG_SECONDS)
    renewing.stop()
    assert renewing._thread.is_alive()  # it hangs still, and nobody waited for it
    end.set()


async def test_a_renewal_that_hangs_does_not_hide_that_the_lease_is_over() -> None:
    told = asyncio.Event()
    async with asyncio.timeout(HANG_SECONDS):
        await keep(state_of(0.3, time.monotonic(), told.set), asyncio.Event().wait)
    assert told.is_set()


async def test_a_task_that_is_stopped_renews_no_more() -> None:
    service = Service()
    task = RenewalTask(state_of(0.05, time.monotonic()), service.renew_in_loop)
    await task.start()
    task.stop()
    await asyncio.sleep(0.2)
    assert service.renewals == 0


STOPPED = """
import asyncio, sys, threading, time
from interlock.kernel.hold import HoldState, RenewalThread, keep

renewed = []
def renew():
    renewed.append(time.monotonic())
    if len(renewed) == 1:
        print("renewed", flush=True)
async def renew_in_loop():
    renew()

told = threading.Event()
state = HoldState(2.0, time.monotonic(), is_final=lambda why: False, on_lost=told.set)
if sys.argv[1] == "task":
    asyncio.run(asyncio.wait_for(keep(state, renew_in_loop), 30))
else:
    with RenewalThread(state, renew):
        told.wait(30)
print("lost" if told.is_set() and state.is_lost else "held", flush=True)
"""


@both
def test_a_process_that_was_stopped_past_its_lease_has_lost_it_though_the_service_would_renew(
    kind: str,
) -> None:
    process = subprocess.Popen([sys.executable, "-c", STOPPED, kind], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "renewed\n"
        process.send_signal(signal.SIGSTOP)
        time.sleep(2.5)
        process.send_signal(signal.SIGCONT)
        assert process.communicate(timeout=2 * HANG_SECONDS)[0] == "lost\n"
    finally:
        process.kill()
        process.wait()

"""The two clients: the same names and signatures, the same requests, over real sockets."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import Any

import pytest

import interlock
from interlock import AsyncInterlock, Interlock, InvalidRequest
from interlock.sdk.flow import Request, Response
from interlock.sdk.retry import BUSY, NO_RETRIES, RetryPolicy
from tests.sdk.remote_calls import JOB, both, called
from tests.sdk.scripted_server import Cut, Told, in_turn, serving
from tests.sdk.virtual_time import problem, success

# Entered with `with` or `async with`: they return what is entered, so neither is a coroutine.
HELD = {"admit", "granted", "lease"}
# Return a decorator or a scope for either kind of function, or what is known here without asking anybody.
MADE = {"current", "effect", "effect_scope", "gate"}


def public(client: type) -> dict[str, Any]:
    names = [name for name in dir(client) if not name.startswith("_")]
    return {name: getattr(client, name) for name in names}


def test_both_clients_have_the_same_public_names() -> None:
    assert public(Interlock).keys() == public(AsyncInterlock).keys()


@pytest.mark.parametrize("name", sorted(set(public(Interlock)) - HELD))
def test_both_clients_take_the_same_arguments_and_return_the_same(name: str) -> None:
    blocking, awaited = public(Interlock)[name], public(AsyncInterlock)[name]
    assert inspect.signature(blocking) == inspect.signature(awaited)
    assert inspect.getdoc(blocking) == inspect.getdoc(awaited)


@pytest.mark.parametrize("name", sorted(HELD))
def test_both_clients_hold_with_the_same_arguments(name: str) -> None:
    blocking, awaited = public(Interlock)[name], public(AsyncInterlock)[name]
    assert inspect.signature(blocking).parameters == inspect.signature(awaited).parameters


@pytest.mark.parametrize("name", sorted(set(public(Interlock)) - HELD - MADE))
def test_one_is_blocking_and_the_other_is_awaited(name: str) -> None:
    assert not inspect.iscoroutinefunction(public(Interlock)[name])
    assert inspect.iscoroutinefunction(public(AsyncInterlock)[name])


def test_a_method_shows_its_own_signature() -> None:
    shown = inspect.signature(Interlock.jobs)
    assert list(shown.parameters) == ["self", "state", "topic", "q", "limit", "cursor"]
    assert shown.return_annotation == "Page[Job]"


@both
def test_a_connection_cut_in_the_middle_is_repeated_under_the_same_key(kind: str) -> None:
    with serving(in_turn(Cut(), JOB)) as server:
        assert called(kind, server.url, "submit", "a.b", {"x": 1}).id == "job_1"
    first, second = server.received
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    assert first.body == second.body


@both
def test_a_replayed_answer_is_marked(kind: str) -> None:
    replay = Response(status=201, headers={"Idempotency-Replayed": "true"}, body=JOB.body)
    with serving(in_turn(JOB, replay)) as server:
        assert not called(kind, server.url, "submit", "a.b", {}).replayed
        assert called(kind, server.url, "submit", "a.b", {}).replayed


@both
def test_a_denied_submit_names_rule_and_job(kind: str) -> None:
    denied = problem(403, "policy_denied", job_id="job_9", rule="no-prod")
    with serving(in_turn(denied)) as server, pytest.raises(interlock.Denied) as caught:
        called(kind, server.url, "submit", "a.b", {})
    assert (caught.value.rule, caught.value.job_id) == ("no-prod", "job_9")


@both
def test_busy_is_retried_and_then_told(kind: str) -> None:
    quick = RetryPolicy(busy=type(BUSY)(base_seconds=0.001, cap_seconds=0.001, attempts_max=3))
    busy = problem(409, "lock_busy", retry_after_ms=1, holder={"principal": "ann"})
    with serving(in_turn(busy)) as server, pytest.raises(interlock.Busy) as caught:
        called(kind, server.url, "approve", "job_1", retry=quick)
    assert len(server.received) == 3
    assert caught.value.holder == {"principal": "ann"}


@both
def test_an_answer_that_is_not_interlocks_says_so(kind: str) -> None:
    pages = [Response(status=200, body=b"<html>"), Response(status=302, headers={"location": "/login"})]
    for page in pages:
        with serving(in_turn(page)) as server, pytest.raises(interlock.UnexpectedAnswer):
            called(kind, server.url, "jobs")


@both
@pytest.mark.parametrize("payload", [{"x": float("nan")}, {"x": 2**60}, {"x": object()}, {1: 2}, "\ud800"])
def test_a_payload_that_is_not_json_never_leaves(kind: str, payload: object) -> None:
    with serving(in_turn(JOB)) as server, pytest.raises(InvalidRequest):
        called(kind, server.url, "submit", "a.b", payload)
    assert server.received == []


@both
@pytest.mark.parametrize("job_id", ["", ".", "..", "../policy", "a/b?c#d"])
def test_an_id_cannot_climb_out_of_its_path(kind: str, job_id: str) -> None:
    with serving(in_turn(JOB)) as server:
        try:
            called(kind, server.url, "get_job", job_id)
        except InvalidRequest:
            assert server.received == []
        else:
            assert server.received[0].path.count("/") == 4
            assert server.received[0].query == ""


def test_a_key_that_could_forge_a_header_is_refused() -> None:
    for key in ("a\r\nx: y", "a b", "ключ", "\x7f"):
        with pytest.raises(InvalidRequest):
            Interlock("http://127.0.0.1:1", key)


def test_a_client_shows_where_it_leads_and_never_its_key() -> None:
    client = Interlock("http://127.0.0.1:1", "il_secret")
    assert repr(client) == "Interlock(url='http://127.0.0.1:1')"


def test_url_and_store_together_are_refused() -> None:
    with pytest.raises(InvalidRequest):
        Interlock("http://127.0.0.1:1", store="memory:")


def test_the_environment_fills_in_what_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLOCK_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("INTERLOCK_KEY", "il_k")
    assert (Interlock().url, Interlock().session.key) == ("http://127.0.0.1:1", "il_k")
    assert Interlock(store="memory:").url is None


def test_threads_share_one_client() -> None:
    def answering(request: Request) -> Told:
        return success(id=request.path.rpartition("/")[2], state="PENDING", job_hash="sha256:0")

    wrong: list[str] = []
    with serving(answering) as server, Interlock(server.url, retry=NO_RETRIES) as il:

        def read(thread: int) -> None:
            for n in range(20):
                job_id = f"job_{thread}_{n}"
                if il.get_job(job_id).id != job_id:
                    wrong.append(job_id)

        threads = [threading.Thread(target=read, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert len(server.received) == 160


async def test_a_cancelled_call_leaves_the_client_usable() -> None:
    held = threading.Event()

    def answering(request: Request) -> Told:
        if request.path.endswith("slow"):
            held.wait(10)
        return JOB

    with serving(answering) as server:
        async with AsyncInterlock(server.url) as il:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await il.get_job("slow")
            held.set()
            assert (await il.get_job("quick")).id == "job_1"

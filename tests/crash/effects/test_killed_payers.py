"""A process killed between begin and commit, at every statement: the remote side is called at most once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from interlock import Ambiguous, Interlock
from interlock.sdk.retry import NO_RETRIES
from interlock.wire.effects import Effect
from tests.crash.effects import payer_program
from tests.crash.effects.counting_remote import Remote
from tests.crash.killed_statements import HANG_SECONDS, PayerProgram
from tests.harness.server import InterlockServer
from tests.harness.soak import dose

BOUNDARIES = 30


@pytest.fixture
def remote() -> Iterator[Remote]:
    with Remote() as opened:
        yield opened


@pytest.fixture
def payers(
    serve: Callable[..., InterlockServer], sqlite_url: str, remote: Remote
) -> Iterator[tuple[InterlockServer, PayerProgram]]:
    server = serve(sqlite_url)
    key = server.create_key("payer", kind="agent", roles="submit,work")
    made = PayerProgram("tests.crash.effects.payer_program", server.url, key.key, str(remote.port))
    yield server, made
    made.close()


def test_a_payer_killed_at_any_statement_charges_at_most_once(
    payers: tuple[InterlockServer, PayerProgram], remote: Remote
) -> None:
    server, made = payers
    payer_key = server.create_key("payer", kind="agent", roles="submit,work").key
    person_key = server.create_key("mia", roles="review").key
    with (
        Interlock(server.url, payer_key, retry=NO_RETRIES) as agent,
        Interlock(server.url, person_key) as person,
    ):
        killed = _kill_at_every_boundary(made)
        _wait_until_none_is_in_progress(person)
        ambiguous = [name for name in killed if _is_ambiguous(person, name)]
        assert len(ambiguous) >= 8, "too few payers died between begin and commit to mean anything"
        for name in ambiguous:
            _settle(agent, person, remote, name)
        others = [name for name in killed if name not in ambiguous]
        for name in others:
            agent.once(name, payer_program.charge, remote.port, 100)
    assert set(remote.charges.values()) == {1}
    assert len(remote.charges) == len(killed) + 1


def _kill_at_every_boundary(made: PayerProgram) -> list[str]:
    """The action ids of payers killed at statements spread over the whole path."""
    statements = made.run("undisturbed")
    assert statements is not None
    count = min(statements, dose(BOUNDARIES))
    fatal = sorted({1 + place * (statements - 1) // max(1, count - 1) for place in range(count)})
    names = [f"payment:{number}" for number in fatal]
    ends = [made.run(name, fatal=number) for number, name in zip(fatal, names, strict=True)]
    # A path may be a statement or two shorter the next time; a payer that got to its end is one that paid.
    assert ends.count(None) >= len(ends) - 1
    return names


def _wait_until_none_is_in_progress(person: Interlock) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while any(each.state == "IN_PROGRESS" for each in _every_effect(person)):
        assert time.monotonic() < deadline, "effects stay in progress past their time"
        time.sleep(0.2)


def _is_ambiguous(person: Interlock, name: str) -> bool:
    # Not by `state=`: that finds what a sweep has marked, and this must not wait for one.
    return any(each.action_id == name and each.state == "AMBIGUOUS" for each in _every_effect(person))


def _every_effect(person: Interlock) -> Iterator[Effect]:
    cursor: str | None = None
    while True:
        page = person.effects(limit=200, cursor=cursor)
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return


def _settle(agent: Interlock, person: Interlock, remote: Remote, name: str) -> None:
    """Refused until a person says what happened; then replayed, or tried exactly once more."""
    with pytest.raises(Ambiguous, match="resolve"):
        agent.once(name, payer_program.charge, remote.port, 100)
    key = person.get_effect(name).downstream_key
    happened = remote.charges[key]
    assert happened <= 1
    if happened:
        person.resolve_effect(name, "committed", evidence="the remote side has it", result={"said": "found"})
        assert agent.once(name, payer_program.charge, remote.port, 100) == {"said": "found"}
    else:
        person.resolve_effect(name, "not_committed", evidence="the remote side knows nothing of it")
        first = agent.once(name, payer_program.charge, remote.port, 100)
        assert agent.once(name, payer_program.charge, remote.port, 100) == first
    assert remote.charges[key] == 1

"""Eight processes, one permission: one winner, seven clean answers, on every store and over two servers."""

from __future__ import annotations

from typing import Any

from tests.harness.soak import dose
from tests.races.grants.conftest import Meeting

NO = {"claimed": False, "grant_id": None, "use": None}


def test_eight_processes_on_one_grant_have_one_winner(meeting: Meeting) -> None:
    for number in range(dose(20)):
        grant = meeting.person.issue_grant("race")

        answers = meeting.claimants.ask("race", number)

        winners = [answer for answer in answers if answer.get("claimed")]
        assert winners == [{"claimed": True, "grant_id": grant.id, "use": 1}]
        assert [answer for answer in answers if not answer.get("claimed")] == [NO] * 7
        assert meeting.person.get_grant(grant.id).state == "spent"


def test_as_many_win_as_there_are_uses(meeting: Meeting) -> None:
    for number in range(dose(5)):
        uses = 1 + number % 9
        grant = meeting.person.issue_grant("several", uses=uses)

        answers = meeting.claimants.ask("several", number)

        won = sorted(answer["use"] for answer in answers if answer.get("claimed"))
        assert won == list(range(1, min(uses, 8) + 1))
        assert answers.count(NO) == 8 - len(won)
        if uses > 8:
            meeting.person.revoke_grant(grant.id)


def test_two_grants_serve_two_winners_with_different_grants(meeting: Meeting) -> None:
    for number in range(dose(5)):
        grants = {meeting.person.issue_grant("pair").id for _ in range(2)}

        answers = meeting.claimants.ask("pair", number)

        assert {answer["grant_id"] for answer in answers if answer.get("claimed")} == grants
        assert answers.count(NO) == 6


def test_what_was_used_adds_up_afterwards(meeting: Meeting) -> None:
    meeting.person.issue_grant("last", uses=3)
    meeting.claimants.ask("last", "last")

    for page in _ledger(meeting):
        assert page["uneven"] == []
        assert page["issued"] == page["open"] + page["claimed"] + page["expired"] + page["revoked"]


def _ledger(meeting: Meeting) -> list[dict[str, Any]]:
    from interlock import Interlock

    pages: list[dict[str, Any]] = []
    cursor: str | None = None
    with Interlock(store=meeting.store) as owner:
        while True:
            page = owner.call("GET", "grants", "ledger", query={"limit": 200, "cursor": cursor})
            pages.append(page)
            cursor = page["next_cursor"]
            if cursor is None:
                return pages

"""Lists of uses and of signers: newest first, each once, page by page, whatever comes in between."""

from __future__ import annotations

import pytest

from tests.rooms.grants.conftest import Granting, Pen, register


async def test_uses_are_listed_newest_first(granting: Granting) -> None:
    grant = await granting.grant(uses=12)
    for number in range(1, 13):
        await granting.claim(execution=f"run-{number}")

    listed = (await granting.api.get(f"grants/{grant}/uses"))["items"]

    assert [use["use"] for use in listed] == list(range(12, 0, -1))
    assert (await granting.read(grant))["claims"] == listed


async def test_pages_of_uses_go_on_where_they_ended_though_others_claim(granting: Granting) -> None:
    grant = await granting.grant(uses=9)
    for _ in range(5):
        await granting.claim()
    seen: list[int] = []
    cursor = ""
    while cursor is not None:
        page = await granting.api.get(f"grants/{grant}/uses?limit=2&cursor={cursor}")
        seen += [use["use"] for use in page["items"]]
        cursor = page["next_cursor"]
        await granting.claim()

    assert seen == [5, 4, 3, 2, 1]


async def test_a_grant_shows_its_newest_uses(granting: Granting) -> None:
    grant = await granting.grant(uses=60)
    for _ in range(55):
        await granting.claim()
    assert [use["use"] for use in (await granting.read(grant))["claims"]] == list(range(55, 5, -1))


async def test_signers_are_listed_newest_first(granting: Granting) -> None:
    pens = [Pen() for _ in range(5)]
    for number, pen in enumerate(pens):
        granting.api.clock.advance(1.5 if number % 2 else 0)
        await register(granting, pen)
    seen: list[tuple[str, str]] = []
    cursor = ""
    while cursor is not None:
        page = await granting.api.get(f"signers?limit=2&cursor={cursor}")
        seen += [(signer["added_at"], signer["fingerprint"]) for signer in page["items"]]
        cursor = page["next_cursor"]

    assert len(seen) == 5
    assert seen == sorted(seen, reverse=True)
    assert {fingerprint for _, fingerprint in seen} == {pen.fingerprint for pen in pens}


@pytest.mark.parametrize("place", ["grants/GRANT/uses", "signers"])
@pytest.mark.parametrize("cursor", ["nonsense", "gnt_1", "1-", "-1", "SHA256:x", "9" * 40])
async def test_a_cursor_of_another_list_is_refused(granting: Granting, place: str, cursor: str) -> None:
    grant = await granting.grant()
    path = place.replace("GRANT", grant)
    seen = await granting.api.call("GET", f"{path}?cursor={cursor}", granting.api.admin)
    assert (seen.status, seen.word) == (400, "invalid_request")

"""Waiting: one line for a whole tree, in the order in which people came."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.rooms.leases.lines import overlaps
from tests.rooms.leases.lease_client import LeaseClient


async def test_waiters_are_served_in_the_order_they_came(client: LeaseClient) -> None:
    held = await client.take("repo:a")
    for ticket in ("one", "two", "three"):
        assert await client.wait("repo:a", "bob", ticket) is None
    await client.do("release", held)
    assert await client.wait("repo:a", "bob", "three") is None
    assert await client.wait("repo:a", "bob", "two") is None
    first = await client.wait("repo:a", "bob", "one")
    assert first is not None


async def test_somebody_without_a_ticket_overtakes_nobody(client: LeaseClient) -> None:
    held = await client.take("repo:a")
    await client.wait("repo:a", "bob", "one")
    await client.do("release", held)
    refused = await client.refused("repo:a", by="cyd")
    assert "bob" in refused["detail"]
    assert await client.wait("repo:a", "bob", "one") is not None


async def test_a_waiter_who_does_not_come_back_holds_nobody_up(client: LeaseClient) -> None:
    held = await client.take("repo:a")
    await client.wait("repo:a", "bob", "dead")
    await client.wait("repo:a", "cyd", "alive")
    await client.do("release", held)
    client.advance(4)
    assert await client.wait("repo:a", "cyd", "alive") is None
    client.advance(1)
    assert await client.wait("repo:a", "cyd", "alive") is not None


async def test_a_waiter_who_keeps_coming_back_keeps_the_place(client: LeaseClient) -> None:
    held = await client.take("repo:a", ttl_seconds=60)
    for _ in range(10):
        assert await client.wait("repo:a", "bob", "patient") is None
        client.advance(4)
    await client.wait("repo:a", "cyd", "newer")
    await client.do("release", held)
    assert await client.wait("repo:a", "cyd", "newer") is None
    assert await client.wait("repo:a", "bob", "patient") is not None


async def test_whoever_wants_everything_is_not_starved_by_leases_on_single_things(
    client: LeaseClient,
) -> None:
    held = await client.take("r/a")
    assert await client.wait("r/**", "bob", "all") is None
    await client.refused("r/b", by="cyd")
    await client.do("release", held)
    assert await client.wait("r/**", "bob", "all") is not None


async def test_whoever_wants_one_thing_is_not_starved_by_those_who_want_everything(
    client: LeaseClient,
) -> None:
    held = await client.take("r/**")
    assert await client.wait("r/a", "bob", "one") is None
    assert await client.wait("r/**", "cyd", "all") is None
    await client.do("release", held)
    assert await client.wait("r/**", "cyd", "all") is None
    assert await client.wait("r/a", "bob", "one") is not None


async def test_waiters_for_different_things_do_not_wait_for_each_other(client: LeaseClient) -> None:
    await client.take("r/a")
    assert await client.wait("r/a", "bob", "a") is None
    assert await client.wait("r/b", "cyd", "b") is not None


async def test_those_who_share_go_together_up_to_the_next_exclusive_one(client: LeaseClient) -> None:
    held = await client.take("repo:a")
    for ticket, mode in (("s1", "shared"), ("s2", "shared"), ("x", "exclusive"), ("s3", "shared")):
        assert await client.wait("repo:a", "bob", ticket, mode) is None
    await client.do("release", held)
    assert await client.wait("repo:a", "bob", "s3", "shared") is None
    assert await client.wait("repo:a", "bob", "s2", "shared") is not None
    assert await client.wait("repo:a", "bob", "s1", "shared") is not None
    assert await client.wait("repo:a", "bob", "s3", "shared") is None


async def test_a_named_successor_goes_before_the_line(client: LeaseClient) -> None:
    held = await client.take("repo:a")
    await client.wait("repo:a", "bob", "longer")
    await client.do("handoff", held, to="cyd", checkpoint="half")
    assert await client.wait("repo:a", "bob", "longer") is None
    taken = await client.take("repo:a", by="cyd")
    await client.do("release", taken, by="cyd")
    assert await client.wait("repo:a", "bob", "longer") is not None


async def test_what_is_kept_for_somebody_comes_free_when_they_do_not_come(client: LeaseClient) -> None:
    held = await client.take("repo:a")
    await client.do("handoff", held, to="cyd")
    refused = await client.refused("repo:a", by="bob")
    assert "kept for cyd" in refused["detail"]
    client.advance(60)
    await client.take("repo:a", by="bob")


async def test_what_is_kept_for_somebody_is_kept_from_those_who_want_everything(client: LeaseClient) -> None:
    held = await client.take("r/a")
    await client.do("handoff", held, to="cyd")
    await client.refused("r/**", by="bob")
    await client.take("r/a", by="cyd")


async def test_handing_over_to_nobody_known_is_refused_and_keeps_the_lease(client: LeaseClient) -> None:
    held = await client.take("repo:a")
    assert (await client.call("handoff", held, to="nobody")).status == 404
    await client.do("renew", held)


async def test_the_line_can_be_read(client: LeaseClient) -> None:
    # Reading goes by this process's clock, so the clock of this store must stand at now.
    from datetime import UTC, datetime

    client.api.clock.now = datetime.now(UTC)
    await client.take("repo:a")
    await client.wait("repo:a", "bob", "one")
    await client.wait("repo:a", "cyd", "two", "shared")
    found = (await client.api.get("leases/waiting"))["items"]
    assert [(each["principal"], each["mode"]) for each in found] == [("bob", "exclusive"), ("cyd", "shared")]


_PATHS = st.lists(st.sampled_from("ab"), min_size=1, max_size=3).map("/".join)
_RESOURCES = st.builds(lambda path, tree: path + "/**" if tree else path, _PATHS, st.booleans())


@given(one=_RESOURCES, other=_RESOURCES)
def test_overlapping_is_having_something_in_common(one: str, other: str) -> None:
    world = ["/".join(path) for path in _all_paths()]

    def covered(resource: str) -> set[str]:
        path = resource.removesuffix("/**")
        below = {each for each in world if each.startswith(f"{path}/")} if resource != path else set[str]()
        return below | {path}

    assert overlaps(one, other) == bool(covered(one) & covered(other))
    assert overlaps(one, other) == overlaps(other, one)


def _all_paths() -> list[tuple[str, ...]]:
    from itertools import product

    return [path for depth in range(1, 5) for path in product("ab", repeat=depth)]


@pytest.mark.parametrize("seed", range(20))
async def test_no_mix_of_waiters_ever_waits_in_a_ring(client: LeaseClient, seed: int) -> None:
    """Whatever is held and wanted: if holders let go, one caller in the line can go on, until all have been served."""
    import random

    chance = random.Random(seed)
    resources = ["r", "r/a", "r/b", "r/a/b", "r/**", "r/a/**"]
    wanted = {f"t{n}": (chance.choice(resources), chance.choice(["exclusive", "shared"])) for n in range(8)}
    held = await client.take("r/**")
    for ticket, (resource, mode) in wanted.items():
        assert await client.wait(resource, "bob", ticket, mode) is None
    await client.do("release", held)
    while wanted:
        served = []
        for ticket, (resource, mode) in wanted.items():
            got = await client.wait(resource, "bob", ticket, mode, ttl_seconds=60)
            if got is not None:
                served.append((ticket, {"lease_id": got.lease.id, "fence": got.lease.fence}))
        assert served, f"all of {wanted} wait for each other"
        for ticket, lease in served:
            await client.do("release", lease, by="bob")
            del wanted[ticket]

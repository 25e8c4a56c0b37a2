"""Whose yes counts, at the moment of the deciding vote and in what is told of it."""

from __future__ import annotations

from tests.harness.in_process_api import ASK, Stage
from tests.rooms.jobs.test_approval_eligibility import FINANCE, TWO, revoke, set_principal


async def test_a_vote_of_someone_who_lost_the_role_does_not_count(stage: Stage) -> None:
    await stage.policy(TWO)
    bot, ada, bob, eve = await stage.agent(), *[await stage.person(name) for name in ("ada", "bob", "eve")]
    job = await stage.submit(bot)
    await stage.approve(job, ada)
    await set_principal(stage, "ada", roles=["submit"])

    second = await stage.approve(job, bob)
    third = await stage.approve(job, eve)

    assert (second.word, second.document["votes"]) == ("vote_recorded", 1)
    assert (third.word, third.document["votes"]) == ("approved", 2)


async def test_a_list_tells_how_many_more_must_agree(stage: Stage) -> None:
    await stage.policy(TWO)
    bot, ada, bob = await stage.agent(), await stage.person("ada"), await stage.person("bob")
    fresh, begun, lost = [await stage.submit(bot) for _ in range(3)]
    decided = await stage.submit(bot)
    await stage.approve(begun, bob)
    await stage.approve(lost, ada)
    for voter in (ada, bob):
        await stage.approve(decided, voter)
    await set_principal(stage, "ada", roles=["submit"])

    listed = (await stage.get("approvals", bob))["items"]

    assert {item["id"]: item["votes_needed"] for item in listed} == {
        fresh: 2,
        begun: 1,
        lost: 2,
        decided: None,
    }


async def test_what_is_decided_keeps_the_votes_that_counted(stage: Stage) -> None:
    await stage.policy(TWO)
    bot, ada, bob, eve = await stage.agent(), *[await stage.person(name) for name in ("ada", "bob", "eve")]
    approved, rejected = await stage.submit(bot), await stage.submit(bot)
    for job in (approved, rejected):
        await stage.approve(job, ada)
    await set_principal(stage, "ada", roles=["submit"])
    await stage.approve(approved, bob)
    await stage.approve(approved, eve)

    again = await stage.approve(approved, eve)
    no = await stage.call("POST", f"approvals/{rejected}/reject", bob, {"reason": "not now"})

    assert (again.word, again.document["votes"]) == ("already_approved", 2)
    votes = (await stage.job(approved))["approval"]["votes"]
    assert [vote["principal"] for vote in votes] == ["bob", "eve"]
    assert (no.word, no.document["votes"]) == ("rejected", 0)


async def test_a_vote_of_someone_who_left_the_group_does_not_count(stage: Stage) -> None:
    await stage.policy(FINANCE)
    bot = await stage.agent()
    ada, bob = [await stage.person(name, groups=("finance",)) for name in ("ada", "bob")]
    job = await stage.submit(bot)
    await stage.approve(job, ada)
    await set_principal(stage, "ada", groups=["sales"])

    assert (await stage.approve(job, bob)).word == "vote_recorded"


async def test_a_vote_of_someone_whose_last_key_was_revoked_does_not_count(stage: Stage) -> None:
    await stage.policy(TWO)
    bot, ada, bob = await stage.agent(), await stage.person("ada"), await stage.person("bob")
    job = await stage.submit(bot)
    await stage.approve(job, ada)
    await revoke(stage, ada)

    assert (await stage.approve(job, bob)).word == "vote_recorded"


async def test_a_vote_counts_while_the_voter_has_another_key(stage: Stage) -> None:
    await stage.policy(TWO)
    bot, ada, bob = await stage.agent(), await stage.person("ada"), await stage.person("bob")
    await stage.person("ada")
    job = await stage.submit(bot)
    await stage.approve(job, ada)
    await revoke(stage, ada)

    assert (await stage.approve(job, bob)).word == "approved"


async def test_a_vote_of_someone_who_became_the_submitters_owner_does_not_count(stage: Stage) -> None:
    await stage.policy(TWO)
    bot, ada, bob = await stage.agent(), await stage.person("ada"), await stage.person("bob")
    job = await stage.submit(bot)
    await stage.approve(job, ada)
    await set_principal(stage, "bot", owner="ada")

    assert (await stage.approve(job, bob)).word == "vote_recorded"


async def test_a_vote_that_was_lost_can_be_given_again_by_the_same_person(stage: Stage) -> None:
    await stage.policy(TWO)
    bot, bob = await stage.agent(), await stage.person("bob")
    laptop = await stage.person("ada-laptop", owner="ada")
    phone = await stage.person("ada-phone", owner="ada")
    job = await stage.submit(bot)
    await stage.approve(job, laptop)
    await revoke(stage, laptop)

    again = await stage.approve(job, phone)
    last = await stage.approve(job, bob)

    assert (again.word, again.document["votes"]) == ("vote_recorded", 1)
    assert last.word == "approved"
    assert [vote["principal"] for vote in (await stage.job(job))["approval"]["votes"]] == ["ada-phone", "bob"]


async def test_people_who_were_made_one_have_one_vote(stage: Stage) -> None:
    await stage.policy(TWO)
    bot, ada, bob = await stage.agent(), await stage.person("ada"), await stage.person("bob")
    job = await stage.submit(bot)
    await stage.approve(job, ada)
    await set_principal(stage, "ada", owner="bob")

    assert (await stage.approve(job, bob)).word == "vote_recorded"


async def test_an_owner_who_gets_an_owner_later_is_the_same_person_all_the_same(stage: Stage) -> None:
    await stage.policy(ASK)
    ada, ada_work = await stage.person("ada"), await stage.person("ada-work", "review,submit")
    bot, laptop = await stage.agent(owner="ada-work"), await stage.person("laptop", owner="ada-work")
    theirs = await stage.submit(bot)
    own = await stage.submit(await stage.key("ada", "person", "review,submit"))

    await set_principal(stage, "ada-work", owner="ada")

    for job, key in ((theirs, ada), (theirs, ada_work), (theirs, laptop), (own, laptop), (own, ada_work)):
        assert (await stage.approve(job, key)).word == "self_approval"
        assert (await stage.reject(job, key)).word == "self_approval"


async def test_names_that_were_linked_after_the_vote_are_one_vote(stage: Stage) -> None:
    await stage.policy(TWO)
    bot, ada, laptop = (
        await stage.agent(),
        await stage.person("ada"),
        await stage.person("laptop", owner="work"),
    )
    work, bob = await stage.person("work"), await stage.person("bob")
    job = await stage.submit(bot)
    await stage.approve(job, laptop)

    await set_principal(stage, "work", owner="ada")

    for key in (ada, work, laptop):
        seen = await stage.approve(job, key)
        assert (seen.word, seen.document["votes"]) == ("vote_recorded", 1)
    assert (await stage.approve(job, bob)).word == "approved"


async def test_votes_whose_names_are_linked_later_count_once(stage: Stage) -> None:
    await stage.policy(TWO.replace("quorum: 2", "quorum: 4"))
    bot = await stage.agent()
    ada, bob, laptop, eve = [await stage.person(name) for name in ("ada", "bob", "laptop", "eve")]
    job = await stage.submit(bot)
    for key in (ada, bob, laptop):
        await stage.approve(job, key)

    await set_principal(stage, "laptop", owner="ada")
    last = await stage.approve(job, eve)

    assert (last.word, last.document["votes"]) == ("vote_recorded", 3)

"""Whose yes counts, at the moment of the deciding vote and in what is told of it."""

from __future__ import annotations

from tests.harness.in_process_api import ASK, InProcessApi
from tests.rooms.jobs.test_approval_eligibility import FINANCE, TWO, revoke, set_principal


async def test_a_vote_of_someone_who_lost_the_role_does_not_count(api: InProcessApi) -> None:
    await api.policy(TWO)
    bot, ada, bob, eve = await api.agent(), *[await api.person(name) for name in ("ada", "bob", "eve")]
    job = await api.submit(bot)
    await api.approve(job, ada)
    await set_principal(api, "ada", roles=["submit"])

    second = await api.approve(job, bob)
    third = await api.approve(job, eve)

    assert (second.word, second.document["votes"]) == ("vote_recorded", 1)
    assert (third.word, third.document["votes"]) == ("approved", 2)


async def test_a_list_tells_how_many_more_must_agree(api: InProcessApi) -> None:
    await api.policy(TWO)
    bot, ada, bob = await api.agent(), await api.person("ada"), await api.person("bob")
    fresh, begun, lost = [await api.submit(bot) for _ in range(3)]
    decided = await api.submit(bot)
    await api.approve(begun, bob)
    await api.approve(lost, ada)
    for voter in (ada, bob):
        await api.approve(decided, voter)
    await set_principal(api, "ada", roles=["submit"])

    listed = (await api.get("approvals", bob))["items"]

    assert {item["id"]: item["votes_needed"] for item in listed} == {
        fresh: 2,
        begun: 1,
        lost: 2,
        decided: None,
    }


async def test_what_is_decided_keeps_the_votes_that_counted(api: InProcessApi) -> None:
    await api.policy(TWO)
    bot, ada, bob, eve = await api.agent(), *[await api.person(name) for name in ("ada", "bob", "eve")]
    approved, rejected = await api.submit(bot), await api.submit(bot)
    for job in (approved, rejected):
        await api.approve(job, ada)
    await set_principal(api, "ada", roles=["submit"])
    await api.approve(approved, bob)
    await api.approve(approved, eve)

    again = await api.approve(approved, eve)
    no = await api.call("POST", f"approvals/{rejected}/reject", bob, {"reason": "not now"})

    assert (again.word, again.document["votes"]) == ("already_approved", 2)
    votes = (await api.job(approved))["approval"]["votes"]
    assert [vote["principal"] for vote in votes] == ["bob", "eve"]
    assert (no.word, no.document["votes"]) == ("rejected", 0)


async def test_a_vote_of_someone_who_left_the_group_does_not_count(api: InProcessApi) -> None:
    await api.policy(FINANCE)
    bot = await api.agent()
    ada, bob = [await api.person(name, groups=("finance",)) for name in ("ada", "bob")]
    job = await api.submit(bot)
    await api.approve(job, ada)
    await set_principal(api, "ada", groups=["sales"])

    assert (await api.approve(job, bob)).word == "vote_recorded"


async def test_a_vote_of_someone_whose_last_key_was_revoked_does_not_count(api: InProcessApi) -> None:
    await api.policy(TWO)
    bot, ada, bob = await api.agent(), await api.person("ada"), await api.person("bob")
    job = await api.submit(bot)
    await api.approve(job, ada)
    await revoke(api, ada)

    assert (await api.approve(job, bob)).word == "vote_recorded"


async def test_a_vote_counts_while_the_voter_has_another_key(api: InProcessApi) -> None:
    await api.policy(TWO)
    bot, ada, bob = await api.agent(), await api.person("ada"), await api.person("bob")
    await api.person("ada")
    job = await api.submit(bot)
    await api.approve(job, ada)
    await revoke(api, ada)

    assert (await api.approve(job, bob)).word == "approved"


async def test_a_vote_of_someone_who_became_the_submitters_owner_does_not_count(api: InProcessApi) -> None:
    await api.policy(TWO)
    bot, ada, bob = await api.agent(), await api.person("ada"), await api.person("bob")
    job = await api.submit(bot)
    await api.approve(job, ada)
    await set_principal(api, "bot", owner="ada")

    assert (await api.approve(job, bob)).word == "vote_recorded"


async def test_a_vote_that_was_lost_can_be_given_again_by_the_same_person(api: InProcessApi) -> None:
    await api.policy(TWO)
    bot, bob = await api.agent(), await api.person("bob")
    laptop = await api.person("ada-laptop", owner="ada")
    phone = await api.person("ada-phone", owner="ada")
    job = await api.submit(bot)
    await api.approve(job, laptop)
    await revoke(api, laptop)

    again = await api.approve(job, phone)
    last = await api.approve(job, bob)

    assert (again.word, again.document["votes"]) == ("vote_recorded", 1)
    assert last.word == "approved"
    assert [vote["principal"] for vote in (await api.job(job))["approval"]["votes"]] == ["ada-phone", "bob"]


async def test_people_who_were_made_one_have_one_vote(api: InProcessApi) -> None:
    await api.policy(TWO)
    bot, ada, bob = await api.agent(), await api.person("ada"), await api.person("bob")
    job = await api.submit(bot)
    await api.approve(job, ada)
    await set_principal(api, "ada", owner="bob")

    assert (await api.approve(job, bob)).word == "vote_recorded"


async def test_an_owner_who_gets_an_owner_later_is_the_same_person_all_the_same(api: InProcessApi) -> None:
    await api.policy(ASK)
    ada, ada_work = await api.person("ada"), await api.person("ada-work", "review,submit")
    bot, laptop = await api.agent(owner="ada-work"), await api.person("laptop", owner="ada-work")
    theirs = await api.submit(bot)
    own = await api.submit(await api.key("ada", "person", "review,submit"))

    await set_principal(api, "ada-work", owner="ada")

    for job, key in ((theirs, ada), (theirs, ada_work), (theirs, laptop), (own, laptop), (own, ada_work)):
        assert (await api.approve(job, key)).word == "self_approval"
        assert (await api.reject(job, key)).word == "self_approval"


async def test_names_that_were_linked_after_the_vote_are_one_vote(api: InProcessApi) -> None:
    await api.policy(TWO)
    bot, ada, laptop = (
        await api.agent(),
        await api.person("ada"),
        await api.person("laptop", owner="work"),
    )
    work, bob = await api.person("work"), await api.person("bob")
    job = await api.submit(bot)
    await api.approve(job, laptop)

    await set_principal(api, "work", owner="ada")

    for key in (ada, work, laptop):
        seen = await api.approve(job, key)
        assert (seen.word, seen.document["votes"]) == ("vote_recorded", 1)
    assert (await api.approve(job, bob)).word == "approved"


async def test_votes_whose_names_are_linked_later_count_once(api: InProcessApi) -> None:
    await api.policy(TWO.replace("quorum: 2", "quorum: 4"))
    bot = await api.agent()
    ada, bob, laptop, eve = [await api.person(name) for name in ("ada", "bob", "laptop", "eve")]
    job = await api.submit(bot)
    for key in (ada, bob, laptop):
        await api.approve(job, key)

    await set_principal(api, "laptop", owner="ada")
    last = await api.approve(job, eve)

    assert (last.word, last.document["votes"]) == ("vote_recorded", 3)


ASKS_TWO = ASK.replace("decision: require_human", "decision: require_human\n    approval: {quorum: 2}")


async def own(api: InProcessApi, name: str, owner: str) -> None:
    assert (await api.call("PUT", f"principals/{name}", api.admin, {"owner": owner})).status == 200


async def test_the_owner_of_a_submitter_who_was_forgotten_is_still_the_submitter(api: InProcessApi) -> None:
    await api.policy(ASK)
    bot, laptop = await api.agent(owner="ada"), await api.person("laptop", owner="ada")
    job = await api.submit(bot)
    await api.call("POST", f"api-keys/{bot.split('_')[1]}/revoke", api.admin, {})
    assert (await api.call("DELETE", "principals/bot", api.admin)).status == 200

    assert (await api.approve(job, laptop)).word == "self_approval"


async def test_a_voter_who_changed_hands_and_the_new_owner_are_one_vote(api: InProcessApi) -> None:
    await api.policy(ASKS_TWO)
    bot, laptop = await api.agent(), await api.person("laptop", owner="ada")
    ada, zoe = await api.person("ada"), await api.person("zoe")
    job = await api.submit(bot)
    await api.approve(job, laptop)
    await own(api, "laptop", "zoe")

    for key in (zoe, ada):
        seen = await api.approve(job, key)
        assert (seen.word, seen.document["votes"]) == ("vote_recorded", 1)

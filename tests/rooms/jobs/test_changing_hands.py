"""Who somebody was when they asked or agreed counts as well as who they are now."""

from __future__ import annotations

from tests.harness.in_process_api import ASK, Stage

TWO = ASK.replace("decision: require_human", "decision: require_human\n    approval: {quorum: 2}")


async def own(stage: Stage, name: str, owner: str) -> None:
    assert (await stage.call("PUT", f"principals/{name}", stage.admin, {"owner": owner})).status == 200


async def test_the_owner_of_a_submitter_who_was_forgotten_is_still_the_submitter(stage: Stage) -> None:
    await stage.policy(ASK)
    bot, laptop = await stage.agent(owner="ada"), await stage.person("laptop", owner="ada")
    job = await stage.submit(bot)
    await stage.call("POST", f"api-keys/{bot.split('_')[1]}/revoke", stage.admin, {})
    assert (await stage.call("DELETE", "principals/bot", stage.admin)).status == 200

    assert (await stage.approve(job, laptop)).word == "self_approval"


async def test_a_voter_who_changed_hands_and_the_new_owner_are_one_vote(stage: Stage) -> None:
    await stage.policy(TWO)
    bot, laptop = await stage.agent(), await stage.person("laptop", owner="ada")
    ada, zoe = await stage.person("ada"), await stage.person("zoe")
    job = await stage.submit(bot)
    await stage.approve(job, laptop)
    await own(stage, "laptop", "zoe")

    for key in (zoe, ada):
        seen = await stage.approve(job, key)
        assert (seen.word, seen.document["votes"]) == ("vote_recorded", 1)

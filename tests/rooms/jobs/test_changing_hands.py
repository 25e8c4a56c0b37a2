"""Who somebody was when they asked or agreed counts as well as who they are now."""

from __future__ import annotations

from tests.harness.in_process_api import ASK, InProcessApi

TWO = ASK.replace("decision: require_human", "decision: require_human\n    approval: {quorum: 2}")


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
    await api.policy(TWO)
    bot, laptop = await api.agent(), await api.person("laptop", owner="ada")
    ada, zoe = await api.person("ada"), await api.person("zoe")
    job = await api.submit(bot)
    await api.approve(job, laptop)
    await own(api, "laptop", "zoe")

    for key in (zoe, ada):
        seen = await api.approve(job, key)
        assert (seen.word, seen.document["votes"]) == ("vote_recorded", 1)

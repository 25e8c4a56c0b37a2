"""Evaluating another principal's job says what would happen if that principal submitted it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.in_process_api import InProcessApi

POLICY = """
version: v1
rules:
  - {id: owned, if: actor.owner == "ada", decision: allow}
  - {id: grouped, if: '"payers" in actor.groups', decision: require_human}
  - {id: manned, if: actor.kind == "person", decision: throttle}
"""


async def rule_for(api: InProcessApi, **actor: Any) -> str | None:
    seen = await api.call("POST", "policy/evaluate", api.admin, {"topic": "pay", "actor": actor})
    assert seen.status == 200, seen.document
    return seen.document["rule"]


async def test_a_principal_that_is_known_here_is_asked_for_as_it_is(api: InProcessApi) -> None:
    await api.policy(POLICY)
    bot = await api.agent("bot", owner="ada")
    payer = await api.agent("payer", groups=("payers",))
    await api.person("eve")

    for name, key in (("bot", bot), ("payer", payer)):
        submitted = await api.propose(key)
        assert await rule_for(api, id=name) == submitted.document["decision"]["rule"]
    assert await rule_for(api, id="eve") == "manned"


@pytest.mark.parametrize(
    ("told", "rule"),
    [({"owner": "ada"}, "owned"), ({"owner": None}, "grouped"), ({"owner": None, "groups": []}, None)],
)
async def test_what_is_told_of_an_actor_goes_before_what_is_known(
    api: InProcessApi, told: dict[str, Any], rule: str | None
) -> None:
    await api.policy(POLICY)
    await api.agent("bot", owner="ada", groups=("payers",))

    assert await rule_for(api, id="bot", **told) == rule


async def test_an_actor_that_nobody_knows_is_an_agent_of_nobody(api: InProcessApi) -> None:
    await api.policy(POLICY)
    assert await rule_for(api, id="stranger") is None
    assert await rule_for(api, id="stranger", kind="person") == "manned"

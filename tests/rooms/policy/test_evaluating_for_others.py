"""What would happen to somebody else's job is what would happen if they submitted it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.in_process_api import Stage

POLICY = """
version: v1
rules:
  - {id: owned, if: actor.owner == "ada", decision: allow}
  - {id: grouped, if: '"payers" in actor.groups', decision: require_human}
  - {id: manned, if: actor.kind == "person", decision: throttle}
"""


async def rule_for(stage: Stage, **actor: Any) -> str | None:
    seen = await stage.call("POST", "policy/evaluate", stage.admin, {"topic": "pay", "actor": actor})
    assert seen.status == 200, seen.document
    return seen.document["rule"]


async def test_a_principal_that_is_known_here_is_asked_for_as_it_is(stage: Stage) -> None:
    await stage.policy(POLICY)
    bot = await stage.agent("bot", owner="ada")
    payer = await stage.agent("payer", groups=("payers",))
    await stage.person("eve")

    for name, key in (("bot", bot), ("payer", payer)):
        submitted = await stage.propose(key)
        assert await rule_for(stage, id=name) == submitted.document["decision"]["rule"]
    assert await rule_for(stage, id="eve") == "manned"


@pytest.mark.parametrize(
    ("told", "rule"),
    [({"owner": "ada"}, "owned"), ({"owner": None}, "grouped"), ({"owner": None, "groups": []}, None)],
)
async def test_what_is_told_of_an_actor_goes_before_what_is_known(
    stage: Stage, told: dict[str, Any], rule: str | None
) -> None:
    await stage.policy(POLICY)
    await stage.agent("bot", owner="ada", groups=("payers",))

    assert await rule_for(stage, id="bot", **told) == rule


async def test_an_actor_that_nobody_knows_is_an_agent_of_nobody(stage: Stage) -> None:
    await stage.policy(POLICY)
    assert await rule_for(stage, id="stranger") is None
    assert await rule_for(stage, id="stranger", kind="person") == "manned"

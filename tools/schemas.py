"""Writes the JSON Schemas of the files that people edit: the policy and `interlock.yaml`.

An editor shows the descriptions on hover and marks mistakes while a person types. The limits and words come from the
parsers, and `tests/rooms/policy/test_policy_schema.py` compares their verdicts. What only a parser can see (an
expression, a duration beyond its limit, two rules with one id) is left to `interlock policy check` and
`interlock exec`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from interlock.cli.execution.tasks import TaskFile
from interlock.rooms.policy import parser
from interlock.rooms.policy.expressions import EXPRESSION_MAX
from interlock.rooms.policy.language import ApprovalRequirement, Decision, PolicyMode
from interlock.rooms.policy.parser import TEXT_MAX, VALUES_MAX
from tools.schema_words import APPROVAL, ESCALATION, POLICY, RULE, TASK, TASK_APPROVAL, THROTTLE, WHEN

FOLDER = Path(__file__).parents[1] / "src" / "interlock" / "schemas"
Json: TypeAlias = dict[str, Any]

# Zero is no duration that a policy can ask for; the upper limits are the parser's to check.
_DURATION = r"^(?=[0-9]*[1-9])(?:[0-9]{1,9}s|[0-9]{1,7}m|[0-9]{1,5}h|[0-9]{1,4}d)$"
_RATE = r"^(?=[0-9]{1,7}/)0*(?:[1-9][0-9]{0,5}|1000000)/[smhd]$"
_SEGMENT = r"(?:\*\*|(?:[^.*\s]|\*(?!\*))+)"
_TOPIC = rf"^{_SEGMENT}(?:\.{_SEGMENT})*$"
_KEY = r"^(?:tenant|actor|owner|topic|env|channel|labels\.[\s\S]+)$"
_LABEL = r"^labels\.[\s\S]+$"
_OUTCOMES = [decision.value for decision in Decision if decision is not Decision.THROTTLE]


def main() -> None:
    """Write both files."""
    for name, text in render().items():
        (FOLDER / name).write_text(text)
        print(f"wrote src/interlock/schemas/{name}")


def render() -> dict[str, str]:
    """The text of each file by its name."""
    schemas = {"policy.schema.json": policy_schema(), "interlock.schema.json": task_file_schema()}
    return {name: json.dumps(schema, indent=2) + "\n" for name, schema in schemas.items()}


def policy_schema() -> Json:
    """What a policy file may say."""
    return {
        **_head("policy.schema.json", "Interlock policy"),
        "description": POLICY[""],
        **_mapping(
            POLICY,
            required=["version"],
            version={"const": "v1"},
            mode={"enum": [mode.value for mode in PolicyMode], "default": PolicyMode.ENFORCE.value},
            default={"enum": _OUTCOMES, "default": Decision.DENY.value},
            rules={"type": "array", "maxItems": parser.RULES_MAX, "items": {"$ref": "#/$defs/rule"}},
        ),
        "$defs": {"rule": _rule(), "when": _when(), "approval": _approval(), "throttle": _throttle()},
    }


def _rule() -> Json:
    # A text is also true or false here: YAML reads `if: true` as a boolean, and the parser takes it.
    condition = {
        "anyOf": [{"type": "string", "maxLength": EXPRESSION_MAX, "pattern": r"\S"}, {"type": "boolean"}]
    }
    return {
        **_mapping(
            RULE,
            required=["id", "decision"],
            id={"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"},
            when={"$ref": "#/$defs/when"},
            **{"if": condition},
            decision={"enum": [decision.value for decision in Decision]},
            approval={"$ref": "#/$defs/approval"},
            throttle={"$ref": "#/$defs/throttle"},
            then={"enum": _OUTCOMES},
            reason={"type": "string", "maxLength": parser.REASON_MAX},
        ),
        "dependentRequired": {"throttle": ["then"], "then": ["throttle"]},
        "allOf": [
            {
                "if": _says("decision", Decision.ALLOW, Decision.DENY, Decision.REQUIRE_HUMAN),
                "then": {"properties": {"throttle": False, "then": False}},
            },
            {
                "if": {
                    "anyOf": [
                        _says("decision", Decision.ALLOW, Decision.DENY),
                        {
                            **_says("decision", Decision.THROTTLE),
                            "not": _says("then", Decision.REQUIRE_HUMAN),
                        },
                    ]
                },
                "then": {"properties": {"approval": False}},
            },
        ],
    }


def _when() -> Json:
    text = _patterns({"type": "string", "maxLength": TEXT_MAX, "not": {"pattern": r"\*\*"}})
    topic = _patterns({"type": "string", "maxLength": TEXT_MAX, "pattern": _TOPIC})
    return {
        **_mapping(WHEN, topic=topic, env=text, channel=text, actor=text, tenant=text, risk=text),
        "patternProperties": {_LABEL: {"description": WHEN["labels"], **text}},
    }


def _approval() -> Json:
    defaults = ApprovalRequirement()
    return {
        **_mapping(
            APPROVAL,
            quorum={
                "type": "integer",
                "minimum": 1,
                "maximum": parser.QUORUM_MAX,
                "default": defaults.quorum,
            },
            groups=_groups(at_least=0),
            self_approval={"type": "boolean", "default": defaults.self_approval},
            expires_in=_duration("4h") | {"default": "24h"},
            on_expiry={"enum": ["deny", "escalate"], "default": defaults.on_expiry},
            escalate={"type": "array", "maxItems": parser.ESCALATIONS_MAX, "items": _escalation()},
            binding={"enum": ["strict", "semantic"], "default": defaults.binding},
            require_hash={"type": "boolean", "default": defaults.require_hash},
            grace=_duration("5m"),
        ),
        "if": _says("on_expiry", "escalate"),
        "then": {"required": ["escalate"], "properties": {"escalate": {"minItems": 1}}},
    }


def _escalation() -> Json:
    return _mapping(
        ESCALATION, required=["after", "groups"], after=_duration("30m"), groups=_groups(at_least=1)
    )


def _throttle() -> Json:
    return _mapping(
        THROTTLE,
        required=["rate"],
        rate={"type": "string", "pattern": _RATE, "examples": ["5/s", "10/m", "600/h", "1000/d"]},
        burst={"type": "integer", "minimum": 1, "maximum": parser.BURST_MAX},
        key={"type": "string", "maxLength": TEXT_MAX, "pattern": _KEY, "default": "tenant"},
    )


def task_file_schema() -> Json:
    """What `interlock.yaml` may say, from the types that read it; other parts of the file belong to others."""
    _, made = msgspec.json.schema_components([TaskFile], ref_template="#/$defs/{name}")
    file, task, approval = made["TaskFile"], made["Task"], made["TaskApproval"]
    for schema, words in ((file, {"tasks": TASK[""]}), (task, TASK), (approval, TASK_APPROVAL)):
        for name, field in schema["properties"].items():
            field["description"] = words[name]
    for each in task["properties"]["command"]["anyOf"]:
        each["minItems" if each["type"] == "array" else "minLength"] = 1
    del task["properties"]["approval"]["default"]  # an editor would insert it whole
    return {
        **_head("interlock.schema.json", "interlock.yaml"),
        "description": TASK["file"],
        "type": ["object", "null"],
        "properties": file["properties"],
        "$defs": {
            "Task": task | {"title": "A task", "description": TASK[""]},
            "TaskApproval": approval | {"title": "Approval", "description": TASK["approval"]},
        },
    }


def _head(name: str, title: str) -> Json:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:interlock:{name}",
        "title": title,
    }


def _mapping(words: dict[str, str], required: list[str] | None = None, **fields: Json) -> Json:
    """A mapping without other fields, each described in words."""
    properties = {name: {"description": words[name], **field} for name, field in fields.items()}
    needed = {"required": required} if required else {}
    return {"type": "object", "additionalProperties": False, **needed, "properties": properties}


def _patterns(item: Json) -> Json:
    """One pattern, or a list of which any will do."""
    return {"anyOf": [item, {"type": "array", "minItems": 1, "maxItems": VALUES_MAX, "items": item}]}


def _groups(*, at_least: int) -> Json:
    group = {"type": "string", "maxLength": TEXT_MAX, "pattern": r"\S"}
    some = {"type": "array", "maxItems": VALUES_MAX, "items": group} | (
        {"minItems": at_least} if at_least else {}
    )
    return {"anyOf": [group, some]}


def _duration(example: str) -> Json:
    return {"type": "string", "pattern": _DURATION, "examples": [example]}


def _says(field: str, *values: str) -> Json:
    return {"required": [field], "properties": {field: {"enum": [str(value) for value in values]}}}


if __name__ == "__main__":
    main()

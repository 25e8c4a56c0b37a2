"""The chart of `deploy/`, linted and rendered by Helm itself: its Go library, which a Python package brings.

It runs in a process of its own, since Go takes signals for itself. No cluster is asked.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, TypeAlias

import yaml

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "interlock"
Json: TypeAlias = dict[str, Any]
HELM_SECONDS = 120
# The library is not made for every system.
HAS_HELM = importlib.util.find_spec("helm_python") is not None

_HELM = """
import json, sys, helm_python as helm
asked = json.load(sys.stdin)
values = asked["values"] if not asked["set"] else helm.parse_set_string(asked["set"])
try:
    if asked["lint"]:
        found = helm.lint(asked["chart"], values, strict=True)
    else:
        with helm.Chart.load(asked["chart"]) as chart:
            found = chart.render(values=values, name="interlock", namespace="agents")
    json.dump(found, sys.stdout)
except helm.HelmError as error:
    sys.exit(str(error))
"""


class Refused(Exception):
    """Helm renders nothing, and says why."""


def lint(values: Json) -> list[str]:
    """What `helm lint --strict` finds worse than a recommendation."""
    report = _helm(lint=True, values=values)
    return [*report["errors"], *(each["error"] for each in report["messages"] if each["severity"] > 1)]


def notes(values: Json) -> str:
    """What `helm install` says at its end."""
    return _helm(values=values)["interlock/templates/NOTES.txt"]


def manifests(values: Json | None = None, *, words: str = "") -> dict[str, Json]:
    """What `helm template` makes, by kind; `words` is what stands after `--set`. Raises `Refused`."""
    found: dict[str, Json] = {}
    for name, text in _helm(values=values or {}, words=words).items():
        if name.endswith(".yaml"):
            made = [each for each in yaml.safe_load_all(text) if each]
            found |= {each["kind"]: each for each in made}
    return found


def _helm(*, values: Json, words: str = "", lint: bool = False) -> Any:
    asked = json.dumps({"chart": str(CHART), "values": values, "set": words, "lint": lint})
    said = subprocess.run(
        [sys.executable, "-c", _HELM], input=asked, capture_output=True, text=True, timeout=HELM_SECONDS
    )
    if said.returncode:
        raise Refused(said.stderr.strip())
    return json.loads(said.stdout)

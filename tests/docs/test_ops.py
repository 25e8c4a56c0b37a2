"""The files in ops/ are current, and Prometheus and a real server understand every expression in them."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import promql_parser
import pytest
import yaml

from tests.harness.debian_programs import installed
from tests.harness.server import InterlockServer
from tools import ops

HOWTO = Path(__file__).parents[2] / "docs" / "howto" / "watch-a-server.md"
# Prometheus adds these to whatever it reads.
ITS_OWN = {"instance", "job"}
SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? \S+$")
LABEL = re.compile(r'(\w+)="(?:[^"\\]|\\.)*"')


def test_the_files_are_current() -> None:
    assert ops.RULES.read_text() == ops.render_rules(), "run `make docs`"
    assert ops.DASHBOARD.read_text() == ops.render_dashboard(), "run `make docs`"


def test_every_alert_says_how_grave_it_is_and_is_explained() -> None:
    explained = HOWTO.read_text()
    assert not [alert.name for alert in ops.ALERTS if f"### {alert.name}\n" not in explained]
    assert {alert.severity for alert in ops.ALERTS} == {"page", "ticket"}


def test_the_dashboard_asks_for_its_data_source_and_its_charts_do_not_overlap() -> None:
    dashboard = json.loads(ops.DASHBOARD.read_text())
    assert dashboard["templating"]["list"][0]["name"] == "datasource"
    charts = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    sources = {target["datasource"]["uid"] for panel in charts for target in panel["targets"]}
    assert sources == {"${datasource}"}
    places = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in dashboard["panels"]
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]
    assert len(set(places)) == len(places)


@pytest.mark.parametrize("place", ops.expressions())
def test_every_expression_is_one(place: str) -> None:
    used = used_by(ops.expressions()[place])
    assert used
    assert all(name.startswith("interlock_") for name in used)


def used_by(expr: str) -> dict[str, set[str]]:
    """The metrics that an expression reads, each with the labels that it asks for."""
    found: dict[str, set[str]] = defaultdict(set)
    _collect(promql_parser.parse(expr), set(), found)
    return dict(found)


def _collect(node: Any, asked: set[str], found: dict[str, set[str]]) -> None:
    match type(node).__name__:
        case "VectorSelector":
            found[node.name] |= asked | {matcher.name for matcher in node.matchers.matchers}
        case "MatrixSelector":
            _collect(node.vector_selector, asked, found)
        case "AggregateExpr":
            by = set(node.modifier.labels) if node.modifier else set[str]()
            _collect(node.expr, asked | by, found)
        case "Call":
            for argument in node.args:
                _collect(argument, asked, found)
        case "BinaryExpr":
            _collect(node.lhs, asked, found)
            _collect(node.rhs, asked, found)
        case "ParenExpr":
            _collect(node.expr, asked, found)
        case "NumberLiteral":
            pass
        case other:
            raise AssertionError(f"an expression has a {other}; teach this test to look into it")


def test_what_an_expression_uses_is_found() -> None:
    used = used_by('sum by (a) (rate(x{b="1"}[5m])) / (max(y) + 1) > 2')
    assert used == {"x": {"a", "b"}, "y": set()}


def test_every_metric_and_label_is_told_by_a_server_that_had_some_traffic(
    serve: Callable[..., InterlockServer], sqlite_url: str
) -> None:
    server = serve(sqlite_url, env={"INTERLOCK_WEBHOOK_ALLOW_PRIVATE": "127.0.0.0/8"})
    admin = server.create_key("root", roles="admin,audit,operate,review,submit,work")
    with httpx2.Client(base_url=f"{server.url}/api/v1", headers=admin.headers, timeout=60) as client:
        play(client)
        told = eventually(lambda: samples(client), lambda found: not missing_in(found))
    assert missing_in(told) == []


def missing_in(told: dict[str, set[str]]) -> list[str]:
    """What expressions use and a server does not tell."""
    return sorted(
        f"{place}: {name}{sorted(labels)}"
        for place, expr in ops.expressions().items()
        for name, labels in used_by(expr).items()
        if name not in told or labels - told[name] - ITS_OWN
    )


def eventually(look: Callable[[], dict[str, set[str]]], good: Callable[[Any], bool]) -> dict[str, set[str]]:
    """What is seen once it is good, or after a while: sweeps and relays take their time."""
    deadline = time.monotonic() + 60
    while not good(found := look()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def samples(client: httpx2.Client) -> dict[str, set[str]]:
    """The metrics of a server, each with its labels."""
    found: dict[str, set[str]] = defaultdict(set)
    for line in client.get("/metrics").text.splitlines():
        if sample := SAMPLE.match(line):
            found[sample[1]] |= set(LABEL.findall(sample[2] or ""))
        elif line.startswith("# TYPE"):
            found[line.split()[2]] |= set()
    return found


def play(client: httpx2.Client) -> None:
    """A little of everything that is measured."""

    def post(path: str, body: Any, **headers: str) -> Any:
        return client.post(path, json=body, headers=headers).json()

    def put(path: str, **sent: Any) -> None:
        client.put(path, **sent).raise_for_status()

    policy = "{version: v1, rules: [{id: ask, when: {topic: pay}, decision: require_human}]}"
    put("/policy", content=policy, headers={"content-type": "text/yaml"})
    put("/limits/nightly", json={"max_concurrent_runs": 1})
    post("/webhooks", {"url": "http://127.0.0.1:9/hook"})
    for _ in range(2):
        post("/workflows/nightly/runs", {"ttl_seconds": 0.1})
    for _ in range(2):
        job = post("/jobs", {"topic": "pay"}, **{"Idempotency-Key": "one"})
    post(f"/approvals/{job['id']}/approve", {})
    effect = post("/effects/pay-1/begin", {"request_hash": "sha256:" + "0" * 64})
    post("/effects/pay-1/fail", {"fence": effect["fence"], "error": "timeout", "safe_to_retry": False})


def promtool(*arguments: str | Path) -> None:
    program = installed("promtool", package="prometheus")
    said = subprocess.run(
        [program.program, *arguments], capture_output=True, text=True, env=program.env(), timeout=60
    )
    assert said.returncode == 0, said.stdout + said.stderr


def test_prometheus_takes_the_rules() -> None:
    promtool("check", "rules", ops.RULES)


def starts(outcome: str, values: str, workflow: str = "w") -> dict[str, str]:
    labels = f'tenant="acme",workflow="{workflow}",outcome="{outcome}"'
    return {"series": f"{ops.STARTS}{{{labels}}}", "values": values}


def gauge(name: str, values: str, labels: str = 'tenant="acme"') -> dict[str, str]:
    return {"series": f"{name}{{{labels}}}", "values": values}


# What is scraped once a minute, which alert is looked at and when, and for whom it fires.
CASES: dict[str, tuple[list[dict[str, str]], str, str, list[dict[str, str]]]] = {
    "two in a hundred 503s for an hour page": (
        [starts("admitted", "0+98x120"), starts("unavailable", "0+2x120")],
        "InterlockAdmissionUnavailable",
        "70m",
        [{"tenant": "acme"}],
    ),
    "one in a hundred does not": (
        [starts("admitted", "0+99x120"), starts("unavailable", "0+1x120")],
        "InterlockAdmissionUnavailable",
        "70m",
        [],
    ),
    "a few 503s of a tenant with few starts do not": (
        [starts("admitted", "0+0.2x120"), starts("unavailable", "0x60 0+1x3 3x60")],
        "InterlockAdmissionUnavailable",
        "65m",
        [],
    ),
    "an outage that is over does not page any more": (
        [starts("admitted", "0+100x120"), starts("unavailable", "0+50x20 1000x100")],
        "InterlockAdmissionUnavailable",
        "40m",
        [],
    ),
    "a full limit is never an outage": (
        [starts("admitted", "0+1x120"), starts("full", "0+99x120"), starts("unavailable", "0x120")],
        "InterlockAdmissionUnavailable",
        "70m",
        [],
    ),
    "one workflow that is full for long is a ticket, its neighbour none": (
        [
            *(starts("admitted", "0+4x60"), starts("full", "0+6x60")),
            *(starts("admitted", "0+6x60", "calm"), starts("full", "0+4x60", "calm")),
        ],
        "InterlockWorkflowFull",
        "20m",
        [{"tenant": "acme", "workflow": "w"}],
    ),
    "one that has been full for a few minutes is none yet": (
        [starts("admitted", "0+4x60"), starts("full", "0+6x60")],
        "InterlockWorkflowFull",
        "8m",
        [],
    ),
    "a request that waits for five hours": (
        [gauge("interlock_approvals_oldest_seconds", "18000x60")],
        "InterlockApprovalOld",
        "30m",
        [{"tenant": "acme"}],
    ),
    "a request that waits for an hour": (
        [gauge("interlock_approvals_oldest_seconds", "3600x60")],
        "InterlockApprovalOld",
        "30m",
        [],
    ),
    "an effect in doubt, told by two servers": (
        [
            gauge("interlock_effects_ambiguous", "1x60", 'tenant="acme",instance="a"'),
            gauge("interlock_effects_ambiguous", "1x60", 'tenant="acme",instance="b"'),
        ],
        "InterlockEffectsAmbiguous",
        "10m",
        [{"tenant": "acme"}],
    ),
    "an effect that was resolved": (
        [gauge("interlock_effects_ambiguous", "1x3 _x60")],
        "InterlockEffectsAmbiguous",
        "30m",
        [],
    ),
    "a server that does not sweep": (
        [gauge("interlock_sweep_age_seconds", "0+60x60", 'instance="a"')],
        "InterlockSweepsStuck",
        "15m",
        [{"instance": "a"}],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_alerts_fire_when_they_should_and_only_then(case: str, tmp_path: Path) -> None:
    series, alert, when, fires = CASES[case]
    severity = next(each.severity for each in ops.ALERTS if each.name == alert)
    query = f'ALERTS{{alertname="{alert}",alertstate="firing"}}'
    expected = [{"labels": _alert_series(alert, severity, labels), "value": 1} for labels in fires]
    document = {
        "rule_files": [str(ops.RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": series,
                "promql_expr_test": [{"expr": query, "eval_time": when, "exp_samples": expected}],
            }
        ],
    }
    path = tmp_path / "cases.yaml"
    path.write_text(yaml.safe_dump(document))
    promtool("test", "rules", path)


def _alert_series(alert: str, severity: str, labels: dict[str, str]) -> str:
    every = {"alertname": alert, "alertstate": "firing", "severity": severity, **labels}
    return "ALERTS{" + ",".join(f'{name}="{value}"' for name, value in every.items()) + "}"

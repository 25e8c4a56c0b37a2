"""Writes ops/: alert rules for Prometheus and a dashboard for Grafana, which name the same metrics.

The texts of the alerts are short; docs/howto/watch-a-server.md says for each of them what to do.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import yaml

OPS = Path(__file__).parents[1] / "ops"
RULES, DASHBOARD = OPS / "prometheus-rules.yaml", OPS / "grafana-dashboard.json"

# 99.9 % of what is asked can be evaluated. 14.4 times that rate of errors spends a month's worth in two days.
ERRORS_ALLOWED = 0.001
BURN = 14.4
ERRORS_LEAST = 5
STARTS = "interlock_admission_total"
FULL, UNAVAILABLE = f'{STARTS}{{outcome="full"}}', f'{STARTS}{{outcome="unavailable"}}'
REQUESTS, PROBLEMS = "interlock_http_requests_total", "interlock_http_problems_total"
BUSY = f'{PROBLEMS}{{code="lock_busy"}}'
PREFACE = """\
# Alert rules for Prometheus. Written by `make docs`.
# docs/howto/watch-a-server.md says what each alert means, and what to do.
"""


def ratio(part: str, whole: str, window: str, by: str = "") -> str:
    """The share of `part` in `whole`, two selectors of counters, over a window."""
    grouped = f" by ({by})" if by else ""
    return f"sum{grouped} (rate({part}[{window}])) / sum{grouped} (rate({whole}[{window}]))"


def burning(part: str, whole: str, by: str = "") -> str:
    """Whether errors use up their budget too quickly, over an hour and still in the last five minutes.

    A few errors of a tenant with few calls wake nobody.
    """
    limit = f"> {BURN} * {ERRORS_ALLOWED}"
    enough = f"sum{f' by ({by})' if by else ''} (increase({part}[1h])) >= {ERRORS_LEAST}"
    return f"({ratio(part, whole, '1h', by)} {limit}) and ({ratio(part, whole, '5m', by)} {limit}) and ({enough})"


class Alert(NamedTuple):
    """One rule. A page wakes a person now; a ticket is for the next working day."""

    name: str
    expr: str
    lasting: str
    severity: str
    summary: str


ALERTS = (
    Alert(
        "InterlockAdmissionUnavailable",
        burning(UNAVAILABLE, STARTS, "tenant"),
        "2m",
        "page",
        "Starts of runs of tenant {{ $labels.tenant }} cannot be evaluated (503): {{ $value | humanizePercentage }} "
        "of them in the last hour.",
    ),
    Alert(
        "InterlockUnavailable",
        burning(f'{PROBLEMS}{{status="503"}}', REQUESTS),
        "2m",
        "page",
        "The API answers 503 to {{ $value | humanizePercentage }} of all requests of the last hour.",
    ),
    Alert(
        "InterlockWorkflowFull",
        ratio(FULL, STARTS, "5m", "tenant, workflow") + " > 0.5",
        "10m",
        "ticket",
        "{{ $value | humanizePercentage }} of the starts of {{ $labels.workflow }} of tenant {{ $labels.tenant }} find "
        "no free slot (429). The tenant needs a higher limit, or fewer starts.",
    ),
    Alert(
        "InterlockApprovalOld",
        "max by (tenant) (interlock_approvals_oldest_seconds) > 4 * 3600",
        "10m",
        "ticket",
        "A request of tenant {{ $labels.tenant }} has waited for people for {{ $value | humanizeDuration }}.",
    ),
    Alert(
        "InterlockApprovalsPilingUp",
        "max by (tenant) (interlock_approvals_waiting) > 100",
        "30m",
        "ticket",
        "{{ $value }} requests of tenant {{ $labels.tenant }} wait for people.",
    ),
    Alert(
        "InterlockLockBusy",
        ratio(BUSY, REQUESTS, "5m") + " > 0.05",
        "10m",
        "ticket",
        "{{ $value | humanizePercentage }} of all requests end in lock_busy.",
    ),
    Alert(
        "InterlockEffectsAmbiguous",
        "max by (tenant) (interlock_effects_ambiguous) > 0",
        "5m",
        "ticket",
        "{{ $value }} effects of tenant {{ $labels.tenant }} have an unknown outcome, and do not run again until "
        "a person resolves them.",
    ),
    Alert(
        "InterlockManyReplays",
        ratio("interlock_idempotent_replays_total", REQUESTS, "15m") + " > 0.2",
        "15m",
        "ticket",
        "{{ $value | humanizePercentage }} of all answers were given before: callers repeat their calls.",
    ),
    Alert(
        "InterlockJobsUnclaimed",
        "sum (increase(interlock_replayed_total[15m])) > 0",
        "15m",
        "ticket",
        "Released jobs are offered again because no worker claims them.",
    ),
    Alert(
        "InterlockDeadLetters",
        "max (interlock_dead_letters) > 0",
        "5m",
        "ticket",
        "{{ $value }} jobs have failed for good and wait for a person.",
    ),
    Alert(
        "InterlockCommitsSlow",
        "histogram_quantile(0.99, sum by (le) (rate(interlock_commit_seconds_bucket[5m]))) > 1",
        "10m",
        "ticket",
        "One batch in a hundred takes {{ $value | humanizeDuration }} or longer to commit.",
    ),
    Alert(
        "InterlockOverloaded",
        "sum (increase(interlock_overloaded_total[5m])) > 0",
        "5m",
        "page",
        "Commands are refused because the queue is full.",
    ),
    Alert(
        "InterlockSweepsStuck",
        "max by (instance) (interlock_sweep_age_seconds) > 300",
        "5m",
        "page",
        "Server {{ $labels.instance }} last swept {{ $value | humanizeDuration }} ago: what expires is not "
        "announced.",
    ),
    Alert(
        "InterlockDeliveriesLate",
        "max by (relay) (interlock_relay_lag_seconds) > 300",
        "10m",
        "ticket",
        "The relay {{ $labels.relay }} is {{ $value | humanizeDuration }} behind: events leave late.",
    ),
    Alert(
        "InterlockCountsDropped",
        "sum (increase(interlock_admission_counts_dropped_total[1h])) > 0",
        "0m",
        "ticket",
        "The stored counts of traffic miss {{ $value }} starts, because the store was away for too long.",
    ),
)


class Panel(NamedTuple):
    """One chart: a title, a unit, and expressions with their legends."""

    title: str
    unit: str
    lines: tuple[tuple[str, str], ...]
    about: str = ""


def chosen(outcome: str = "") -> str:
    """Starts of the tenants and workflows that are chosen in the dashboard, of one outcome or of all."""
    ended = f',outcome="{outcome}"' if outcome else ""
    return f'{STARTS}{{tenant=~"$tenant",workflow=~"$workflow"{ended}}}'


_INTERVAL = "$__rate_interval"


def rate(selector: str, by: str = "") -> str:
    """How often a second, added up over servers."""
    return f"sum{f' by ({by})' if by else ''} (rate({selector}[{_INTERVAL}]))"


def quantile(share: float, histogram: str) -> str:
    """What this share of observations stays below."""
    return f"histogram_quantile({share}, {rate(f'{histogram}_bucket', 'le')})"


ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "Admission: 429 is full, 503 could not be evaluated",
        (
            Panel(
                "Starts by outcome",
                "ops",
                ((rate(chosen(), "outcome"), "{{outcome}}"),),
                "Of at most 150 workflows on each server; the rest is `other`. `interlock traffic` has them all.",
            ),
            Panel(
                "429 by tenant and workflow",
                "ops",
                ((rate(chosen("full"), "tenant, workflow"), "{{tenant}} {{workflow}}"),),
            ),
            Panel(
                "503 by tenant and workflow",
                "ops",
                (
                    (
                        rate(chosen("unavailable"), "tenant, workflow"),
                        "{{tenant}} {{workflow}}",
                    ),
                ),
            ),
            Panel(
                "Saturation: share of 429",
                "percentunit",
                (
                    (
                        ratio(chosen("full"), chosen(), _INTERVAL, "tenant, workflow"),
                        "{{tenant}} {{workflow}}",
                    ),
                ),
            ),
            Panel(
                "Burn rate of 503, by tenant",
                "none",
                tuple(
                    (
                        f"({ratio(chosen('unavailable'), chosen(), window, 'tenant')}) / {ERRORS_ALLOWED}",
                        f"{{{{tenant}}}} over {window}",
                    )
                    for window in ("1h", "5m")
                ),
                f"1 spends exactly what 99.9 % allow. {BURN} in both windows pages.",
            ),
        ),
    ),
    (
        "What waits for people",
        (
            Panel(
                "Approvals waiting",
                "none",
                (('max by (tenant) (interlock_approvals_waiting{tenant=~"$tenant"})', "{{tenant}}"),),
            ),
            Panel(
                "Age of the oldest",
                "s",
                (('max by (tenant) (interlock_approvals_oldest_seconds{tenant=~"$tenant"})', "{{tenant}}"),),
            ),
            Panel(
                "Decisions",
                "ops",
                ((rate("interlock_approvals_total", "verb, outcome"), "{{verb}} {{outcome}}"),),
            ),
            Panel(
                "Ambiguous effects",
                "none",
                (('max by (tenant) (interlock_effects_ambiguous{tenant=~"$tenant"})', "{{tenant}}"),),
            ),
            Panel("Dead letters", "none", (("max (interlock_dead_letters)", "dead letters"),)),
        ),
    ),
    (
        "Requests and contention",
        (
            Panel(
                "Requests by operation",
                "ops",
                ((rate(REQUESTS, "operation"), "{{operation}}"),),
            ),
            Panel(
                "Problems by code",
                "ops",
                ((rate(PROBLEMS, "code, status"), "{{status}} {{code}}"),),
            ),
            Panel("lock_busy", "ops", ((rate(BUSY), "lock_busy"),)),
            Panel(
                "Jobs by what the policy decided",
                "ops",
                ((rate("interlock_submits_total", "decision"), "{{decision}}"),),
            ),
            Panel(
                "Time of a request",
                "s",
                tuple(
                    (quantile(share, "interlock_http_request_seconds"), name)
                    for share, name in ((0.5, "half"), (0.99, "99 %"))
                ),
            ),
            Panel(
                "Replays",
                "ops",
                (
                    (rate("interlock_idempotent_replays_total"), "answers given again"),
                    (rate("interlock_replayed_total"), "unclaimed jobs offered again"),
                ),
            ),
        ),
    ),
    (
        "Batches, sweeps and deliveries",
        (
            Panel(
                "Commands in a batch",
                "none",
                (
                    (
                        f"{rate('interlock_batch_commands_sum')} / {rate('interlock_batch_commands_count')}",
                        "on average",
                    ),
                    (quantile(0.99, "interlock_batch_commands"), "99 %"),
                ),
            ),
            Panel(
                "Time to commit",
                "s",
                tuple(
                    (quantile(share, "interlock_commit_seconds"), name)
                    for share, name in ((0.5, "half"), (0.99, "99 %"))
                ),
            ),
            Panel(
                "Queue, reruns and overload",
                "none",
                (
                    ("sum (interlock_queue_depth)", "queued"),
                    (rate("interlock_batch_reruns_total"), "reruns a second"),
                    (rate("interlock_overloaded_total"), "refused a second"),
                ),
            ),
            Panel("Swept", "ops", ((rate("interlock_swept_total", "what"), "{{what}}"),)),
            Panel(
                "Time since the last sweep",
                "s",
                (("max by (instance) (interlock_sweep_age_seconds)", "{{instance}}"),),
            ),
            Panel("Relays behind", "s", (("max by (relay) (interlock_relay_lag_seconds)", "{{relay}}"),)),
        ),
    ),
)


def main() -> None:
    """Write both files."""
    OPS.mkdir(exist_ok=True)
    for path, text in ((RULES, render_rules()), (DASHBOARD, render_dashboard())):
        path.write_text(text)
        print(f"wrote {path.relative_to(OPS.parent)}")


def render_rules() -> str:
    """The alert rules as Prometheus reads them."""
    rules = [
        {
            "alert": alert.name,
            "expr": alert.expr,
            "for": alert.lasting,
            "labels": {"severity": alert.severity},
            "annotations": {
                "summary": alert.summary,
                "runbook": f"docs/howto/watch-a-server.md#{alert.name.lower()}",
            },
        }
        for alert in ALERTS
    ]
    return PREFACE + yaml.safe_dump(
        {"groups": [{"name": "interlock", "rules": rules}]}, sort_keys=False, width=1000
    )


def render_dashboard() -> str:
    """The dashboard as Grafana imports it; it asks for the data source."""
    dashboard = {
        "title": "Interlock",
        "uid": "interlock",
        "tags": ["interlock"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": _variables()},
        "panels": _panels(),
    }
    return json.dumps(dashboard, indent=1) + "\n"


def expressions() -> dict[str, str]:
    """Every expression by where it is, with Grafana's variables replaced by values."""
    found = {f"alert {alert.name}": alert.expr for alert in ALERTS}
    for row, panels in ROWS:
        for panel in panels:
            for number, (expr, _) in enumerate(panel.lines):
                found[f"{row}: {panel.title} {number}"] = _filled(expr)
    return found


def _filled(expr: str) -> str:
    return re.sub(r"\$(tenant|workflow)\b", ".*", expr.replace(_INTERVAL, "5m"))


def _variables() -> list[dict[str, Any]]:
    return [
        {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
        _label_variable("tenant", STARTS),
        _label_variable("workflow", f'{STARTS}{{tenant=~"$tenant"}}'),
    ]


def _label_variable(label: str, selector: str) -> dict[str, Any]:
    return {
        "name": label,
        "label": label.capitalize(),
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": f"label_values({selector}, {label})",
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


_WIDTH, _HEIGHT, _COLUMNS = 8, 8, 3


def _panels() -> list[dict[str, Any]]:
    """Rows of three charts each, numbered from the top."""
    panels: list[dict[str, Any]] = []
    top = 0
    for title, charts in ROWS:
        panels.append(
            {"type": "row", "title": title, "gridPos": {"h": 1, "w": 24, "x": 0, "y": top}, "panels": []}
        )
        for place, chart in enumerate(charts):
            line, column = divmod(place, _COLUMNS)
            at = {"h": _HEIGHT, "w": _WIDTH, "x": column * _WIDTH, "y": top + 1 + line * _HEIGHT}
            panels.append(_chart(chart) | {"gridPos": at})
        top += 1 + -(-len(charts) // _COLUMNS) * _HEIGHT
    return [panel | {"id": number} for number, panel in enumerate(panels, start=1)]


def _chart(panel: Panel) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "type": "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": source,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + number), "datasource": source, "expr": expr, "legendFormat": legend}
            for number, (expr, legend) in enumerate(panel.lines)
        ],
    }


if __name__ == "__main__":
    main()

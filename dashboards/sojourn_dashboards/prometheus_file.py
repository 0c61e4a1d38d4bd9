"""The rule file of Prometheus, recording rules and the alerts that read them by group; and the page that lists them.

A group is evaluated in order, and groups are not: an alert is in the group of its recording rules.
"""

from __future__ import annotations

from string import Template

from sojourn_dashboards.prometheus_alerts import OBJECTIVE_ALERTS, SERVICE_ALERTS, Alert
from sojourn_dashboards.prometheus_measurement_alerts import MEASUREMENT_ALERTS
from sojourn_dashboards.prometheus_rules import RECORDINGS

RUNBOOK = "/d/sojourn-runbook/runbook"

ALERTS: dict[str, tuple[Alert, ...]] = {
    "sojourn_services": SERVICE_ALERTS,
    "sojourn_objectives": OBJECTIVE_ALERTS,
    "sojourn_measurement": MEASUREMENT_ALERTS,
}
"""Group of the rule file -> its alerts."""


def anchor(heading: str) -> str:
    """Return the anchor of a heading of the runbook."""
    return heading.lower().replace(" ", "-")


def rule_file() -> dict[str, object]:
    """Return the content of the rule file that Prometheus reads."""
    groups = []
    for group, alerts in ALERTS.items():
        recordings: list[dict[str, object]] = [
            {"record": rule.name, "expr": rule.expr} for rule in RECORDINGS.get(group, ())
        ]
        groups.append({"name": group, "interval": "1m", "rules": recordings + list(map(_rule, alerts))})
    return {"groups": groups}


_PAGE = Template("""# Rules and alerts for Prometheus

<!-- Written by python -m sojourn_dashboards: change the code it documents, and run that again. -->

`prometheus/rules/sojourn.yaml`, for the metrics of `sojourn export`. `keep_firing_for` needs Prometheus 2.42 or later.
Load the file with `rule_files`, after `promtool check rules sojourn.yaml`.

## Alerts

| alert | severity | for | fires when | runbook |
| --- | --- | --- | --- | --- |
$alerts

## Recording rules

Names are `level:metric:operations`, where the level is the labels that remain. Without a request in
its range, a series has no sample.

| series | meaning |
| --- | --- |
$recordings
""")


def page() -> str:
    """Return the page that lists alerts and recording rules, Markdown."""
    alerts = [
        f"| `{alert.name}` | {alert.severity} | {_duration(alert)} | {alert.description} "
        f"| [{alert.section}](runbook.md#{anchor(alert.section)}) |"
        for group in ALERTS.values()
        for alert in group
    ]
    recordings = [f"| `{rule.name}` | {rule.meaning} |" for rules in RECORDINGS.values() for rule in rules]
    return _PAGE.substitute(alerts="\n".join(alerts), recordings="\n".join(recordings))


def _duration(alert: Alert) -> str:
    duration = alert.hold or "0m"
    return f"{duration}, kept {alert.keep}" if alert.keep else duration


def _rule(alert: Alert) -> dict[str, object]:
    durations = {"for": alert.hold, "keep_firing_for": alert.keep}
    return {
        "alert": alert.name,
        "expr": alert.expr,
        **{key: value for key, value in durations.items() if value},
        "labels": {"severity": alert.severity, "product": "sojourn"},
        "annotations": {
            "summary": alert.summary,
            "description": alert.description,
            "runbook_url": f"{RUNBOOK}#{anchor(alert.section)}",
        },
    }

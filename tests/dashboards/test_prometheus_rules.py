"""The rule file of Prometheus: promtool runs its unit tests, and every alert has one either way and a runbook."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from dashboards_support import HERE, boards, panels, text_of
from promtool import promtool
from sojourn.export.metrics import BY_NAME, HISTOGRAM, METRICS
from sojourn_dashboards.prometheus_file import ALERTS, anchor
from sojourn_dashboards.prometheus_rules import RECORDINGS

FILE = HERE / "prometheus" / "rules" / "sojourn.yaml"
UNIT_TESTS = sorted((Path(__file__).parent / "prometheus").glob("*_test.yaml"))
GROUPS = {group["name"]: group["rules"] for group in yaml.safe_load(FILE.read_text())["groups"]}
RULES = [rule for rules in GROUPS.values() for rule in rules]
ALERTING = {rule["alert"]: rule for rule in RULES if "alert" in rule}
RECORDED = {rule["record"]: rule for rule in RULES if "record" in rule}
PROMQL = [pytest.param(r["expr"], id=r.get("alert") or r["record"]) for r in RULES] + [
    pytest.param(text_of(target), id=f"{panel['title']} {target['refId']}")
    for panel in panels(boards()["prometheus"])
    for target in panel.get("targets") or []
]
# Labels that a scrape adds, and the bound of a bucket.
SCRAPED = {"job", "instance"}
PARTS_OF_HISTOGRAM = {"_bucket": {"le"}, "_sum": set(), "_count": set()}


def test_promtool_accepts_the_rules() -> None:
    promtool("check", "rules", "--lint=all", "--lint-fatal", FILE)


@pytest.mark.parametrize("file", UNIT_TESTS, ids=lambda file: file.stem)
def test_the_unit_tests_pass(file: Path) -> None:
    promtool("test", "rules", file)


def test_promtool_notices_an_alert_that_does_not_fire(tmp_path: Path) -> None:
    [file] = [file for file in UNIT_TESTS if file.stem == "measurement_test"]
    rules = tmp_path / "rules.yaml"
    rules.write_text(FILE.read_text().replace("sojourn_log_missing == 1", "sojourn_log_missing == 2"))
    tests = yaml.safe_load(file.read_text()) | {"rule_files": [str(rules)]}
    tests["tests"] = [test for test in tests["tests"] if "SojournLogMissing" in str(test)]
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(tests))
    with pytest.raises(AssertionError, match="SojournLogMissing"):
        promtool("test", "rules", tmp_path / "test.yaml")


def test_the_file_has_the_rules_of_the_code() -> None:
    assert list(ALERTING) == [alert.name for alerts in ALERTS.values() for alert in alerts]
    assert set(RECORDED) == {rule.name for rules in RECORDINGS.values() for rule in rules}
    assert len(RECORDED) == sum(map(len, RECORDINGS.values()))


def expectations() -> list[dict[str, Any]]:
    return [
        case
        for file in UNIT_TESTS
        for test in yaml.safe_load(file.read_text())["tests"]
        for case in test.get("alert_rule_test") or []
    ]


@pytest.mark.parametrize("name", ALERTING)
def test_an_alert_is_tested_both_ways(name: str) -> None:
    cases = [case for case in expectations() if case["alertname"] == name]
    assert any(case["exp_alerts"] for case in cases)
    assert any(case["exp_alerts"] == [] for case in cases)


def test_the_unit_tests_are_of_alerts_that_exist() -> None:
    assert {case["alertname"] for case in expectations()} == set(ALERTING)


def test_every_recorded_series_is_tested() -> None:
    """By its value, or by an alert that reads it."""
    tested = "".join(file.read_text() for file in UNIT_TESTS) + "".join(rule["expr"] for rule in ALERTING.values())
    assert [name for name in RECORDED if not re.search(rf"{name}\b", tested)] == []


@pytest.mark.parametrize("name", ALERTING)
def test_an_alert_is_whole(name: str) -> None:
    rule = ALERTING[name]
    assert re.fullmatch(r"Sojourn[A-Z]\w+", name)
    assert rule["labels"] == {"severity": rule["labels"]["severity"], "product": "sojourn"}
    assert rule["labels"]["severity"] in {"critical", "warning"}
    notes = rule["annotations"]
    assert "{{ $" in notes["summary"]
    assert len(notes["description"]) > 60
    assert notes["description"].endswith(".")
    assert re.search(r"\d", notes["description"])


@pytest.mark.parametrize("name", ALERTING)
def test_an_alert_has_a_section_in_the_runbook(name: str) -> None:
    page, _, place = ALERTING[name]["annotations"]["runbook_url"].partition("#")
    assert page == "/d/sojourn-runbook/runbook"
    sections = (HERE / "runbook.md").read_text().split("\n## ")
    [section] = [text for text in sections if anchor(text.partition("\n")[0]) == place]
    assert f"`{name}`" in section


def test_an_alert_is_evaluated_after_the_series_it_reads() -> None:
    """Groups are evaluated in no order: a series of another group may be a minute old."""
    for rules in GROUPS.values():
        recorded: set[str] = set()
        for rule in rules:
            assert set(re.findall(r"\w+:\w+:\w+", rule["expr"])) <= recorded | {rule.get("record")}
            recorded |= {rule.get("record", "")}


# --- names and labels


def metric_labels(name: str) -> set[str]:
    """Labels of a series that an exporter serves."""
    for suffix, more in PARTS_OF_HISTOGRAM.items():
        base = BY_NAME.get(name.removesuffix(suffix))
        if name.endswith(suffix) and base and base.kind == HISTOGRAM:
            return {*base.labels, *more}
    assert BY_NAME[name].kind != HISTOGRAM, f"{name} is a histogram: _bucket, _sum or _count is missing"
    return set(BY_NAME[name].labels)


def known_labels(expression: str) -> set[str]:
    """Labels of the series in an expression; of a recorded one, those of its level."""
    raw = re.findall(r"(?<![\w:])sojourn_\w+(?![\w:])", expression)
    levels = {"service": {"service"}, "service_objective": {"service", "objective"}}
    recorded = [levels[name.split(":")[0]] for name in re.findall(r"\w+:\w+:\w+", expression)]
    return set().union(*map(metric_labels, raw), *recorded)


def used_labels(expression: str) -> set[str]:
    used = {label for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression) for label in group.split(",")}
    used |= set(re.findall(r"(\w+)=~?\"", expression))
    return {label.strip() for label in used} - {""}


@pytest.mark.parametrize("expression", PROMQL)
def test_metrics_and_labels_are_those_of_the_exporter(expression: str) -> None:
    names = set(re.findall(r"(?<![\w:])[a-z_]+(?=\{|\[| offset)|(?<![\w:])sojourn_\w+(?![\w:])", expression))
    for name in names - {"up", "job"}:
        metric_labels(name)  # raises for a metric that the exporter does not have
    assert used_labels(expression) <= known_labels(expression) | SCRAPED
    for name, matchers in re.findall(r"(?<![\w:])(sojourn_\w+)\{([^}]*)\}", expression):
        assert set(re.findall(r"(\w+)=", matchers)) <= metric_labels(name)


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ("rate(sojourn_no_such_total[5m])", KeyError),
        ("sum(sojourn_response_time_seconds)", AssertionError),
        ("sum by (route) (sojourn_saturation)", AssertionError),
        ('sojourn_saturation{route="/"}', AssertionError),
    ],
)
def test_the_check_sees_what_the_exporter_does_not_have(wrong: str, expected: type[Exception]) -> None:
    with pytest.raises(expected):
        test_metrics_and_labels_are_those_of_the_exporter(wrong)


def test_every_metric_is_used_in_a_rule_or_a_panel() -> None:
    """Those that are not are those that a rule computes for all exporters together."""
    text = " ".join(param.values[0] for param in PROMQL)
    assert [metric.name for metric in METRICS if not re.search(rf"\b{metric.name}(_bucket|_sum|_count)?\b", text)] == [
        "sojourn_utilisation_ratio",
        "sojourn_saturation",
    ]


@pytest.mark.parametrize("metric", [metric for metric in METRICS if metric.kind == "counter"], ids=lambda m: m.name)
def test_a_counter_is_read_as_a_rate(metric: Any) -> None:
    """Or counted as present, which is what ``group`` does."""
    for param in PROMQL:
        for match in re.finditer(rf"{metric.name}\b", param.values[0]):
            before = param.values[0][: match.start()]
            assert re.search(r"(\brate|\bincrease|\bgroup by \([^)]*\) )\($", before), param.id

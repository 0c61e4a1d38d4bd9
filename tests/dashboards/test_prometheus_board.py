"""Every query of the dashboard for Prometheus: its figures in a real Prometheus, and the log of a real exporter."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from dashboards_support import HERE, boards, panels, placeholders, variables
from filled_prometheus import LIVE, FilledPrometheus, eventually, running
from grafana_expand import provisioned
from prometheus_fixtures import (
    BACKENDS,
    ELSE,
    GROUPS,
    IN_PROGRESS,
    IN_SERVICE,
    LOAD,
    MET,
    NEEDED,
    RATIO,
    ROUTES,
    SHORT,
    THRESHOLD,
    WAITING,
    WORKERS,
    Group,
)
from promql_expand import PrometheusView, as_pattern, expanded
from simulator import Settings, as_lines, simulated_log
from sojourn.export.metrics import BUCKETS
from sojourn.export.refusal import REASONS
from sojourn_dashboards.prometheus_file import ALERTS
from sojourn_dashboards.prometheus_rules import RECORDINGS, SATURATION

BOARD = boards()["prometheus"]
VARIABLES = BOARD["templating"]["list"]
TARGETS = [
    pytest.param(panel, target, id=f"{panel['title']}: {target['legendFormat']}")
    for panel in panels(BOARD)
    for target in panel["targets"]
]
SHOP = [group for group in GROUPS if group.service == "shop"]
SOURCES = HERE / "grafana" / "provisioning" / "datasources"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilledPrometheus]:
    with running(tmp_path_factory.mktemp("prometheus")) as started:
        yield started


def view(**chosen: list[str]) -> PrometheusView:
    all_values = {variable["name"]: variable["allValue"] for variable in VARIABLES}
    return PrometheusView(variables=variables(BOARD) | chosen, all_values=all_values)


def shown(server: FilledPrometheus, target: dict[str, Any], chosen: PrometheusView) -> dict[str, float]:
    """Name of each series, as the legend has it, and its last value; of a table, the values of its labels."""
    promql = expanded(target["expr"], chosen)
    rows = server.instant(promql)
    if target["format"] == "table":
        return {" ".join(value for _, value in sorted(labels.items())): value for labels, value in rows}
    names = [
        re.sub(r"\{\{(\w+)\}\}", lambda label, row=labels: row[label[1]], target["legendFormat"]) for labels, _ in rows
    ]
    assert len(set(names)) == len(names), f"two series have the same name: {names}"
    over_time = server.range(promql, chosen.seconds, chosen.interval)
    assert len(over_time) == len(rows)
    assert all(len(values) >= chosen.seconds / chosen.interval - 2 for _, values in over_time)
    return dict(zip(names, (value for _, value in rows), strict=True))


# --- figures, computed from the groups of requests and not by a query

_REQUESTS = sum(group.rate for group in SHOP)


def _waiting(groups: list[Group]) -> float:
    """Seconds of queueing delay per second."""
    return sum(group.rate * wait * share for group in groups for wait, share in group.waits)


def _service(groups: list[Group]) -> float:
    return sum(group.rate * group.service_time for group in groups)


def _retries(groups: list[Group]) -> float:
    return sum(group.rate * group.retry for group in groups)


def _responding(groups: list[Group]) -> float:
    rate = sum(group.rate for group in groups)
    return _waiting(groups) + _service(groups) + _retries(groups) + rate * ELSE


def _in_bucket(values: list[tuple[float, float]], quantile: float) -> Any:
    """A value in the bucket of the quantile. ``values``: value, s; rate."""
    total, below = sum(rate for _, rate in values), 0.0
    for value, rate in sorted(values):
        below += rate
        if below >= quantile * total - 1e-9:
            edges = [0.0, *BUCKETS]
            place = next(number for number, edge in enumerate(edges) if value <= edge)
            middle, half = (edges[place] + edges[place - 1]) / 2, (edges[place] - edges[place - 1]) / 2
            return pytest.approx(middle, abs=half + 1e-9)
    raise AssertionError(values)


_WAITS = [(wait, group.rate * share) for group in SHOP for wait, share in group.waits]
_SERVED = [(group.service_time, group.rate) for group in SHOP]
_RESPONSES = [
    (wait + group.service_time + group.retry + ELSE, group.rate * share)
    for group in SHOP
    for wait, share in group.waits
]
_SHOP_BACKENDS = [upstream for service, upstream in BACKENDS if service == "shop"]
_SECONDS = 3600
_LIMITED = 3600.0  # an infinite time to drain


def _routes(figure: Any) -> dict[str, float]:
    return {f"{group.route} shop": figure(group) for group in SHOP}


FIGURES: dict[tuple[str, str], dict[str, Any]] = {
    ("Objectives now", "threshold"): {"fast shop": THRESHOLD},
    ("Objectives now", "wanted"): {"fast shop": RATIO},
    ("Objectives now", "met in 1 h"): {"fast shop": MET["shop"]},
    ("Objectives now", "met in 6 h"): {"fast shop": MET["shop"]},
    **{("Objectives now", f"burn rate, {window}"): {"fast shop": 5} for window in ("1 h", "6 h", "3 d")},
    ("Objective met", "{{service}} {{objective}}"): {"shop fast": MET["shop"]},
    **{
        ("Burn rate", f"{{{{service}}}} {{{{objective}}}}, {window}"): {f"shop fast, {window}": 5}
        for window in ("5 min", "1 h", "6 h")
    },
    ("Mean response time, split", "queueing delay"): {"queueing delay": _waiting(SHOP) / _REQUESTS},
    ("Mean response time, split", "service time"): {"service time": _service(SHOP) / _REQUESTS},
    ("Mean response time, split", "retries"): {"retries": _retries(SHOP) / _REQUESTS},
    ("Mean response time, split", "everything else"): {"everything else": ELSE},
    ("Share over time", "share of queueing"): {"share of queueing": _waiting(SHOP) / _responding(SHOP)},
    **{
        (title, name): {name: _in_bucket(values, quantile)}
        for title, values in (("Response time", _RESPONSES), ("Queueing delay", _WAITS), ("Service time", _SERVED))
        for name, quantile in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
    },
    ("Queueing delay, heatmap", "{{le}}"): {
        **{f"{edge:g}": 75 * sum(rate for wait, rate in _WAITS if wait <= edge) for edge in BUCKETS},
        "+Inf": 75 * _REQUESTS,
    },
    ("Requests and workers", "waiting"): {"waiting": sum(WAITING[name] for name in _SHOP_BACKENDS)},
    ("Requests and workers", "in service"): {"in service": sum(IN_SERVICE[name] for name in _SHOP_BACKENDS)},
    ("Requests and workers", "in system"): {
        "in system": sum(WAITING[name] + IN_SERVICE[name] for name in _SHOP_BACKENDS)
    },
    ("Requests and workers", "workers"): {"workers": sum(WORKERS[name] for name in _SHOP_BACKENDS)},
    ("Requests and workers", "waiting by Little's law"): {"waiting by Little's law": _waiting(SHOP)},
    ("Utilisation and saturation", "{{service}} utilisation"): {"shop utilisation": 0.6},
    ("Utilisation and saturation", "{{service}} saturation"): {"shop saturation": LOAD["shop"] / 2},
    ("Workers needed", "{{service}} {{objective}}: {{method}}"): {
        f"shop fast: {method}": workers for method, workers in NEEDED.items()
    },
    ("Workers needed", "{{service}} workers"): {"shop workers": 2},
    ("Workers needed", "{{service}} offered load"): {"shop offered load": LOAD["shop"]},
    ("Scaling", "offered load"): {"offered load": LOAD["shop"]},
    ("Scaling", "requests in progress"): {"requests in progress": IN_PROGRESS["shop"]},
    ("Scaling", "workers"): {"workers": 2},
    ("Scaling", "workers needed, live"): {"workers needed, live": NEEDED["live"]},
    ("Scaling", "within the objective"): {"within the objective": MET["shop"]},
    ("Live refused", "{{service}} {{reason}}"): {f"shop {reason}": 0 for reason in REASONS},
    ("Signal refused", "{{service}} {{reason}}"): {f"shop {reason}": 0 for reason in REASONS},
    ("Bottleneck", "{{service}} {{resource}}"): {f"shop {SHORT}": 1},
    ("Seconds to drain", "{{service}}"): {"shop": _LIMITED},
    ("Waiting beside free workers", "{{service}} {{account}}"): {"shop imbalance": 0.25, "shop dispatch": 0.05},
    ("Top routes by queueing", "queueing seconds"): _routes(lambda group: _waiting([group]) * _SECONDS),
    ("Top routes by queueing", "requests"): _routes(lambda group: group.rate * _SECONDS),
    ("Top routes by queueing", "mean queueing"): _routes(lambda group: _waiting([group]) / group.rate),
    ("Top routes by queueing", "share of queueing"): _routes(lambda group: _waiting([group]) / _responding([group])),
    ("Mean queueing delay by backend", "{{upstream}}"): {
        group.upstream: _waiting([group]) / group.rate for group in SHOP
    },
    ("Responses by status", "{{status}}"): {"200": 0.9 * _REQUESTS, "504": 0.1 * _REQUESTS},
    ("Retries", "retries per request"): {
        "retries per request": sum(group.rate for group in SHOP if group.retry) / _REQUESTS
    },
    ("Abandoned requests", "abandoned"): {"abandoned": sum(group.abandoned for group in SHOP)},
    ("Abandoned requests", "all requests"): {"all requests": _REQUESTS},
    ("Time of abandoned requests", "abandoned"): {"abandoned": 2 * sum(group.abandoned for group in SHOP)},
    ("Time of abandoned requests", "wasted"): {"wasted": sum(group.wasted for group in SHOP)},
    ("Known from", "{{source}}"): {"stamp": 0.75 * _REQUESTS, "duration": 0.25 * _REQUESTS},
    ("Negative queueing delays", "{{upstream}}"): {
        group.upstream: group.negative / group.rate for group in SHOP if group.negative
    },
    ("Clock offset", "{{upstream}} offset"): {f"{name} offset": -0.002 for name in _SHOP_BACKENDS},
    ("Clock offset", "{{upstream}} ±"): {f"{name} ±": 0.0005 for name in _SHOP_BACKENDS},
    ("Log lag", "{{instance}} lag"): {"edge:9469 lag": 0.5},
    ("Log lag", "{{instance}} last record"): {"edge:9469 last record": 2},
    ("Log lag", "{{instance}} state"): {"edge:9469 state": 5},
    ("Unread", "{{instance}} {{log}}"): {"edge:9469 access.jsonl": 4096},
    ("Lines", "{{log}} read"): {"access.jsonl read": 20},
    ("Lines", "refused: {{reason}}"): {"refused: invalid_json": 0.25},
    ("Lines", "repeated"): {"repeated": 0.125},
    ("Lines", "ahead of the clock"): {"ahead of the clock": 0.0625},
    ("Missing and rotated logs", "{{log}} missing"): {"access.jsonl missing": 0},
    ("Unread", "{{log}} lost"): {"access.jsonl lost": 75 * 2.0},
    ("Missing and rotated logs", "{{log}} not opened"): {"access.jsonl not opened": 0},
    ("Missing and rotated logs", "{{log}} rotations"): {"access.jsonl rotations": 75 / 600},
    ("Counted as other", "{{label}}"): {"route": 0.5},
    ("Held for the gauges", "{{instance}}"): {"edge:9469": 9000},
}


def test_every_query_is_checked() -> None:
    places = [(panel["title"], target["legendFormat"]) for panel, target in (param.values for param in TARGETS)]
    assert len(set(places)) == len(places)
    assert set(places) == set(FIGURES)


@pytest.mark.parametrize(("panel", "target"), TARGETS)
def test_the_figures(server: FilledPrometheus, panel: dict[str, Any], target: dict[str, Any]) -> None:
    expected = FIGURES[panel["title"], target["legendFormat"]]
    values = shown(server, target, view(service=["shop"]))
    assert set(values) == set(expected)
    for name, value in values.items():
        assert value == (expected[name] if not isinstance(expected[name], int | float) else _near(expected[name])), name


def _near(value: float) -> Any:
    return pytest.approx(value, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(("panel", "target"), TARGETS)
def test_a_query_has_data_for_all_services_at_once(
    server: FilledPrometheus, panel: dict[str, Any], target: dict[str, Any]
) -> None:
    values = shown(server, target, view())
    assert values
    assert all(value == value for value in values.values())  # noqa: PLR0124 - NaN


OF_THE_EXPORTER = {"Log lag", "Unread", "Lines", "Missing and rotated logs", "Counted as other", "Held for the gauges"}


@pytest.mark.parametrize(("panel", "target"), TARGETS)
def test_a_query_of_a_service_without_requests_has_no_data(
    server: FilledPrometheus, panel: dict[str, Any], target: dict[str, Any]
) -> None:
    """And no error: the panel says why it is empty."""
    if panel["title"] not in OF_THE_EXPORTER:
        assert server.instant(expanded(target["expr"], view(service=["no such service"]))) == []


@pytest.mark.parametrize("route", ROUTES)
def test_a_hostile_route_selects_its_own_requests_and_no_others(server: FilledPrometheus, route: str) -> None:
    [target] = [
        target
        for panel, target in (param.values for param in TARGETS)
        if (panel["title"], target["legendFormat"]) == ("Abandoned requests", "all requests")
    ]
    assert shown(server, target, view(route=[route])) == {"all requests": _near(0.5)}
    assert shown(server, target, view(route=[route, "/search"])) == {"all requests": _near(2.5)}


@pytest.mark.parametrize(
    ("value", "pattern"),
    [
        ("a.b", r"a\\.b"),
        ("/orders/:id", "/orders/:id"),
        (r"\d", r"\\\\d"),
        ("(x|y)*", r"\\(x\\|y\\)\\*"),
        ("it's", r"it\\'s"),
    ],
)
def test_a_value_is_escaped_as_grafana_escapes_it(value: str, pattern: str) -> None:
    assert as_pattern(value) == pattern


@pytest.mark.parametrize("wrong", ["sum(a{service=$service})", 'a{service="$service"}', "rate(a[$__nosuch])"])
def test_the_expansion_refuses_what_grafana_would_not_expand(wrong: str) -> None:
    with pytest.raises(AssertionError):
        expanded(wrong, view(service=["a", "b"]))


@pytest.mark.parametrize("variable", VARIABLES, ids=lambda variable: variable["name"])
def test_a_variable_lists_what_occurs(server: FilledPrometheus, variable: dict[str, Any]) -> None:
    query = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
    assert query
    matcher = expanded(query[1], view(service=["shop"]))
    listed = server.api(
        f"label/{query[2]}/values", **{"match[]": matcher, "start": server.until - 600, "end": server.until}
    )
    everything = variable["name"] == "service"
    expected = {getattr(group, variable["name"]) for group in (GROUPS if everything else SHOP)}
    assert set(listed) - {LIVE} == expected


# --- rules in a server, and a real exporter


@pytest.fixture(scope="module")
def live(server: FilledPrometheus) -> tuple[FilledPrometheus, float]:
    """The server, once it has scraped an exporter that read a log in two parts; and that instant, unix time."""
    assert server.log
    rows, _ = simulated_log(Settings(requests=600, rate=12.0))
    shift = time.time() - max(float(row["time"]) for row in rows)
    for number, row in enumerate(rows):
        row |= {"service": LIVE, "route": "/", "trace_id": f"{number:032x}"}
        row |= {key: f"{float(row[key]) + shift:.3f}" for key in ("time", "request_start")}
    lines = list(as_lines(rows))
    for count in (300, 600):
        with server.log.open("ab") as file:
            file.writelines(lines[count - 300 : count])

        def scraped(wanted: int = count) -> bool:
            result = server.instant(f'sum(sojourn_requests_total{{service="{LIVE}"}})', time.time())
            return bool(result) and result[0][1] == wanted

        eventually(scraped, f"Prometheus to have scraped {count} requests")
    recorded = f'{SATURATION}{{service="{LIVE}"}}'
    eventually(lambda: server.instant(recorded, time.time()), "Prometheus to have scraped the gauges")
    return server, time.time()


# Spans, and nginx's counters (--status): the exporter has neither.
NOT_IN_THE_LOG = {
    "Time of abandoned requests: wasted",
    "Scaling: requests in progress",
    "Scaling: workers needed, live",
    "Live refused: {{service}} {{reason}}",
}


@pytest.mark.parametrize(("panel", "target"), TARGETS)
def test_a_query_has_data_from_a_real_exporter(
    live: tuple[FilledPrometheus, float], panel: dict[str, Any], target: dict[str, Any]
) -> None:
    server, at = live
    place = f"{panel['title']}: {target['legendFormat']}"
    rows = server.instant(expanded(target["expr"], view(service=[LIVE])), at)
    assert bool(rows) != (place in NOT_IN_THE_LOG)


@pytest.mark.parametrize("title", ["Response time", "Queueing delay", "Service time"])
def test_a_latency_panel_shows_single_requests(live: tuple[FilledPrometheus, float], title: str) -> None:
    """By one of its queries: a second one would show each request twice."""
    [target] = [
        target
        for panel, target in (param.values for param in TARGETS)
        if panel["title"] == title and target["exemplar"]
    ]
    server, at = live
    answer = server.api(
        "query_exemplars", query=expanded(target["expr"], view(service=[LIVE])), start=at - 600, end=at + 60
    )
    ids = {exemplar["labels"]["trace_id"] for series in answer for exemplar in series["exemplars"]}
    assert ids
    assert ids <= {f"{number:032x}" for number in range(600)}


def test_the_recorded_saturation_is_that_of_the_exporter(live: tuple[FilledPrometheus, float]) -> None:
    """Of one exporter; the rule adds up several, which no exporter can."""
    server, at = live
    [expression] = [rule.expr for rules in RECORDINGS.values() for rule in rules if rule.name == SATURATION]
    computed, served = (
        [value for labels, value in server.instant(promql, at) if labels["service"] == LIVE]
        for promql in (expression, "sojourn_saturation")
    )
    assert computed == [pytest.approx(value) for value in served] != []


def test_a_server_evaluates_every_rule(server: FilledPrometheus) -> None:
    def rules() -> list[dict[str, Any]]:
        return [rule for group in server.api("rules")["groups"] for rule in group["rules"]]

    evaluated = eventually(
        lambda: (every := rules()) and all(rule["health"] != "unknown" for rule in every) and every,
        "Prometheus to evaluate its rules",
    )
    assert [(rule["name"], rule.get("lastError")) for rule in evaluated if rule["health"] != "ok"] == []
    assert len(evaluated) == sum(map(len, [*ALERTS.values(), *RECORDINGS.values()]))
    # Of what the rules record of the data before the server's start.
    exact = (_waiting(SHOP) - 0.01 * sum(group.negative for group in SHOP)) / _REQUESTS

    def means() -> list[float]:
        result = server.instant('service:sojourn_queueing_delay_seconds:mean5m{service="shop"}', time.time())
        return [value for _, value in result]

    assert eventually(means, "the recorded mean") == [pytest.approx(exact, rel=1e-6)]


# --- provisioning


def test_the_data_source_is_for_this_dashboard_and_not_the_default() -> None:
    [source] = yaml.safe_load((SOURCES / "prometheus.yaml").read_text())["datasources"]
    others = [
        other
        for path in SOURCES.glob("*.yaml")
        if path.name != "prometheus.yaml"
        for other in yaml.safe_load(path.read_text())["datasources"]
    ]
    used = {target["datasource"]["uid"] for panel in panels(BOARD) for target in panel["targets"]}
    assert used == {source["uid"]} == {"sojourn-prometheus"}
    assert source["type"] == "prometheus"
    assert source["isDefault"] is False
    assert source["editable"] is False
    assert source["url"] == "$SOJOURN_PROMETHEUS_URL"
    assert {source["name"], source["uid"]}.isdisjoint({other[key] for other in others for key in ("name", "uid")})


def test_an_exemplar_leads_to_the_dashboard_of_one_request() -> None:
    [source] = yaml.safe_load((SOURCES / "prometheus.yaml").read_text())["datasources"]
    [link] = provisioned(source["jsonData"])["exemplarTraceIdDestinations"]
    target = boards()["request"]
    path, _, query = link["url"].partition("?")
    assert link["name"] == "trace_id"
    assert path == f"/d/{target['uid']}/one-request"
    assert query == "var-request_id=${__value.raw:percentencode}"
    assert "request_id" in variables(target)
    assert placeholders(query) == set()


def test_no_query_of_the_dashboard_needs_the_rules() -> None:
    assert ":sojourn" not in json.dumps(BOARD)


def test_the_folder_of_the_rules_is_the_one_that_prometheus_reads() -> None:
    config = yaml.safe_load((HERE / "prometheus" / "prometheus.yaml").read_text())
    matches = {path for pattern in config["rule_files"] for path in (HERE / "prometheus").glob(pattern)}
    assert HERE / "prometheus" / "rules" / "sojourn.yaml" in matches
    assert Path(HERE / "prometheus" / "rules" / "sojourn.yaml").is_file()

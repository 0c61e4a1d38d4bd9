"""The files of dashboards/prometheus: configurations that their programs accept, queries that return the right numbers.

The manifests are decoded by the Go types of Kubernetes, KEDA and the Prometheus Operator; the queries run in promtool.
"""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from promtool import Samples, assert_queries, promtool, series
from sojourn.export.metrics import BY_NAME
from sojourn.queueing.theory import erlang_c

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "dashboards/prometheus"
SCALING = FOLDER / "scaling"
MANIFESTS = ("hpa.yaml", "keda.yaml", "scrape.yaml")
KINDS = {
    "hpa.yaml": {"autoscaling/v2 HorizontalPodAutoscaler"},
    "keda.yaml": {"keda.sh/v1alpha1 ScaledObject"},
    "scrape.yaml": {"apps/v1 Deployment", "monitoring.coreos.com/v1 PodMonitor"},
}
RULES: list[dict[str, Any]] = yaml.safe_load((SCALING / "prometheus-adapter.yaml").read_text())["externalRules"]
HPA: dict[str, Any] = yaml.safe_load((SCALING / "hpa.yaml").read_text())["spec"]
KEDA: dict[str, Any] = yaml.safe_load((SCALING / "keda.yaml").read_text())["spec"]
# Fields of a rule, as the adapter's documentation has them.
FIELDS = {"seriesQuery", "seriesFilters", "resources", "name", "metricsQuery"}
BUILD_DEADLINE_S = 400
BUCKETS = ("0.05", "0.1", "0.25", "+Inf")


def api_name(rule: dict[str, Any]) -> str:
    """Return the name under which the adapter serves a rule."""
    return str(rule.get("name", {}).get("as", series_of(rule)))


def series_of(rule: dict[str, Any]) -> str:
    """Return the name of the metric that a rule reads."""
    return str(rule["seriesQuery"]).partition("{")[0]


def rendered(rule: dict[str, Any], matchers: str) -> str:
    """Return the query that the adapter makes of a rule's template, for the matchers of an HPA."""
    query = str(rule["metricsQuery"]).replace("<<.Series>>", series_of(rule))
    return query.replace("<<.LabelMatchers>>", matchers)


QUERIES = {api_name(rule): rendered(rule, 'service="shop"') for rule in RULES}
TRIGGER, WHILE_REFUSED = KEDA["triggers"]
ALL_QUERIES = [*QUERIES.values(), TRIGGER["metadata"]["query"], WHILE_REFUSED["metadata"]["query"]]


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that decodes manifests; skipped where Go or its modules are missing."""
    if shutil.which("go") is None:
        pytest.skip("go is not installed: the manifests were not decoded by their Go types")
    program = tmp_path_factory.mktemp("manifests") / "manifests"
    source = Path(__file__).parent / "scaling"
    done = subprocess.run(
        ["go", "build", "-o", program, "."],
        cwd=source, capture_output=True, text=True, check=False, timeout=BUILD_DEADLINE_S,
    )  # fmt: skip
    if re.search(r"dial tcp|Forbidden|no such host|toolchain not available|go >= ", done.stderr):
        pytest.skip(f"the Go modules of Kubernetes are not available: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return program


def decoded(program: Path, file: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, file], capture_output=True, text=True, check=False, timeout=30)


@pytest.mark.timeout(BUILD_DEADLINE_S + 60)
@pytest.mark.parametrize("name", MANIFESTS)
def test_manifest_has_only_fields_of_its_api(decoder: Path, name: str) -> None:
    done = decoded(decoder, SCALING / name)
    assert (done.returncode, done.stderr) == (0, "")
    assert {line.split(maxsplit=1)[1] for line in done.stdout.splitlines()} == KINDS[name]


@pytest.mark.timeout(BUILD_DEADLINE_S + 60)
def test_line_that_a_comment_offers_is_a_field_too(decoder: Path, tmp_path: Path) -> None:
    text = (SCALING / "hpa.yaml").read_text()
    assert text.count("# tolerance:") == 1
    (tmp_path / "hpa.yaml").write_text(text.replace("# tolerance:", "tolerance:"))
    assert decoded(decoder, tmp_path / "hpa.yaml").returncode == 0


@pytest.mark.timeout(BUILD_DEADLINE_S + 60)
@pytest.mark.parametrize(
    ("name", "right", "wrong", "message"),
    [
        ("hpa.yaml", "averageValue:", "averageValues:", "unknown field"),
        ("keda.yaml", "minReplicaCount: 2", "minReplicaCount: 41", "MinReplicaCount=41"),
        ("keda.yaml", "failureThreshold: 4", "failureThreshold: -1", "FailureThreshold=-1"),
        ("scrape.yaml", "honorLabels:", "honourLabels:", "unknown field"),
    ],
)
def test_decoder_rejects_mistakes(
    decoder: Path, tmp_path: Path, name: str, right: str, wrong: str, message: str
) -> None:
    text = (SCALING / name).read_text()
    assert right in text
    (tmp_path / name).write_text(text.replace(right, wrong))
    done = decoded(decoder, tmp_path / name)
    assert done.returncode == 1
    assert message in done.stderr


def test_adapter_rules_have_known_fields_and_are_not_namespaced() -> None:
    for rule in RULES:
        assert set(rule) <= FIELDS
        assert rule["resources"] == {"namespaced": False}
        matches = rule.get("name", {}).get("matches", "")
        assert re.search(matches, series_of(rule))
    assert len(QUERIES) == len(RULES), "two rules with the same name"


def test_queries_use_metrics_of_the_exporter() -> None:
    for query in ALL_QUERIES:
        names = set(re.findall(r"\bsojourn_\w+", query))
        assert names
        assert {name.removesuffix("_bucket") for name in names} <= set(BY_NAME)


def test_hpa_and_keda_scale_alike() -> None:
    needed, while_refused = (metric["external"] for metric in HPA["metrics"])
    assert {needed["metric"]["name"], while_refused["metric"]["name"]} <= set(QUERIES)
    assert needed["target"] == {"type": "AverageValue", "averageValue": TRIGGER["metadata"]["threshold"]}
    assert while_refused["target"] == {"type": "Value", "value": "100m"}
    assert float(WHILE_REFUSED["metadata"]["threshold"]) == 0.1
    assert [trigger["metricType"] for trigger in KEDA["triggers"]] == ["AverageValue", "Value"]
    assert KEDA["advanced"]["horizontalPodAutoscalerConfig"]["behavior"] == HPA["behavior"]
    assert (KEDA["minReplicaCount"], KEDA["maxReplicaCount"]) == (HPA["minReplicas"], HPA["maxReplicas"])
    assert KEDA["minReplicaCount"] <= KEDA["fallback"]["replicas"] <= KEDA["maxReplicaCount"]


def test_scaling_down_is_slower_than_scaling_up() -> None:
    up, down = HPA["behavior"]["scaleUp"], HPA["behavior"]["scaleDown"]
    assert up["stabilizationWindowSeconds"] < down["stabilizationWindowSeconds"]
    slow, fast = (sum(p["value"] / p["periodSeconds"] for p in rules["policies"]) for rules in (down, up))
    assert slow < fast


def needed(instance: str, objective: str, value: int, service: str = "shop", method: str = "replay") -> dict[str, str]:
    labels = {"service": service, "objective": objective, "method": method, "instance": instance}
    return series("sojourn_workers_needed", labels, f"{value}x40")


def delays(service: str, counts: tuple[int, ...]) -> list[dict[str, str]]:
    """Return a histogram that grows by these cumulative counts each 15 s, over two routes."""
    return [
        series("sojourn_queueing_delay_seconds_bucket", {"service": service, "route": route, "le": bound}, f"0+{n}x40")
        for route in ("/a", "/b")
        for bound, n in zip(BUCKETS, counts, strict=True)
    ]


def gauge(name: str, value: str, **labels: str) -> dict[str, str]:
    return series(name, labels, f"{value}x40")


# Two exporters, a and b, of one service; a second service; one without workers and requests.
SERIES = [
    needed("a", "queueing_delay:p95=0.1", 9),
    needed("a", "response_time:p99=1", 12),
    needed("b", "queueing_delay:p95=0.1", 5),
    needed("a", "queueing_delay:p95=0.1", 70, method="erlang_c"),
    needed("a", "queueing_delay:p95=0.1", 3, service="blog"),
    gauge("sojourn_offered_load_workers", "3.5", service="shop", instance="a"),
    gauge("sojourn_offered_load_workers", "2.5", service="shop", instance="b"),
    gauge("sojourn_offered_load_workers", "0", service="idle", instance="a"),
    gauge("sojourn_workers", "4", service="shop", upstream="10.0.0.1:80", instance="a"),
    gauge("sojourn_workers", "4", service="shop", upstream="10.0.0.1:80", instance="b"),
    gauge("sojourn_workers", "4", service="shop", upstream="10.0.0.2:80", instance="a"),
    gauge("sojourn_workers", "0", service="idle", upstream="10.0.0.3:80", instance="a"),
    gauge("sojourn_seconds_to_drain", "12", service="shop", instance="a"),
    gauge("sojourn_seconds_to_drain", "1e18", service="idle", instance="a"),
    *delays("shop", (50, 90, 100, 100)),
    *delays("idle", (0, 0, 0, 0)),
]
REASON = "waits_not_reproduced"
NOT_REFUSED = [
    gauge("sojourn_signal_refused", "0", service=service, reason=REASON, instance=instance)
    for service in ("shop", "idle")
    for instance in ("a", "b")
]
# Exporter a refuses, so that only b gives a number.
REFUSED = [
    *(
        row
        for row in SERIES
        if not (row["series"].startswith("sojourn_workers_needed") and 'instance="a"' in row["series"])
    ),
    gauge("sojourn_signal_refused", "1", service="shop", reason=REASON, instance="a"),
    gauge("sojourn_signal_refused", "0", service="shop", reason=REASON, instance="b"),
]
SHOP, IDLE = {"service": "shop"}, {"service": "idle"}
# Of the queueing delay, the 95th of 100 lies halfway between 0.1 s (90) and 0.25 s (100).
EXPECTED: dict[str, Samples] = {
    "sojourn_workers_needed": [(SHOP, 17.0)],
    "sojourn_offered_load_workers": [(SHOP, 6.0)],
    "sojourn_saturation": [(SHOP, 0.75)],
    "sojourn_queueing_delay_p95_seconds": [(SHOP, 0.175)],
    "sojourn_queueing_delay_p95_while_refused_seconds": [(SHOP, 0.0)],
    "sojourn_seconds_to_drain": [(SHOP, 12.0)],
}
ALL_SERVICES: dict[str, Samples] = {
    "sojourn_workers_needed": [({"service": "blog"}, 3.0), (SHOP, 17.0)],
    "sojourn_offered_load_workers": [(IDLE, 0.0), (SHOP, 6.0)],
    "sojourn_saturation": [(SHOP, 0.75)],
    "sojourn_queueing_delay_p95_seconds": [(SHOP, 0.175)],
    "sojourn_queueing_delay_p95_while_refused_seconds": [(IDLE, 0.0), (SHOP, 0.0)],
    "sojourn_seconds_to_drain": [(IDLE, 3600.0), (SHOP, 12.0)],
}


def test_queries_return_one_number_for_a_service(tmp_path: Path) -> None:
    assert set(EXPECTED) == set(QUERIES)
    cases = [(QUERIES[name], samples) for name, samples in EXPECTED.items()]
    triggers = [(TRIGGER["metadata"]["query"], [({}, 17.0)]), (WHILE_REFUSED["metadata"]["query"], [({}, 0.0)])]
    assert_queries(tmp_path, [*SERIES, *NOT_REFUSED], [*cases, *triggers])


def test_refused_number_gives_way_to_the_queueing_delay(tmp_path: Path) -> None:
    """KEDA keeps the eight workers; the HPA has no number of workers and removes no pod."""
    delay = "sojourn_queueing_delay_p95_while_refused_seconds"
    assert_queries(
        tmp_path,
        REFUSED,
        [
            (QUERIES["sojourn_workers_needed"], []),
            (QUERIES[delay], [(SHOP, 0.175)]),
            (TRIGGER["metadata"]["query"], [({}, 8.0)]),
            (WHILE_REFUSED["metadata"]["query"], [({}, 0.175)]),
        ],
    )


def test_exporter_that_is_down_gives_no_number(tmp_path: Path) -> None:
    """KEDA's fallback is for this, so that neither trigger may read as 0."""
    cases = [(trigger["metadata"]["query"], []) for trigger in KEDA["triggers"]]
    assert_queries(tmp_path, [gauge("up", "0", job="sojourn")], cases)


def test_queries_without_a_matcher_return_every_service(tmp_path: Path) -> None:
    cases = [(rendered(rule, ""), ALL_SERVICES[api_name(rule)]) for rule in RULES]
    assert_queries(tmp_path, [*SERIES, *NOT_REFUSED], cases)


def test_services_without_requests_have_no_percentile_and_no_saturation(tmp_path: Path) -> None:
    names = ("sojourn_queueing_delay_p95_seconds", "sojourn_saturation")
    cases = [(rendered(rule, 'service="idle"'), []) for rule in RULES if api_name(rule) in names]
    assert len(cases) == len(names)
    assert_queries(tmp_path, SERIES, cases)


def test_prometheus_accepts_its_configuration(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "prometheus")
    promtool("check", "config", tmp_path / "prometheus/prometheus.yaml")


def test_prometheus_scrapes_the_exporter_of_compose() -> None:
    jobs = {job["job_name"]: job for job in yaml.safe_load((FOLDER / "prometheus.yaml").read_text())["scrape_configs"]}
    (target,) = jobs["sojourn"]["static_configs"][0]["targets"]
    service, port = target.split(":")
    command = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"][service]["command"]
    assert command[command.index("--listen") + 1] == f"0.0.0.0:{port}"


def replicas(present: int, value: float, average: float, tolerance: float = 0.1) -> int:
    """Return the replicas that an HPA wants for an external metric with an AverageValue.

    Source: GetExternalPerPodMetricReplicas in Kubernetes' pkg/controller/podautoscaler/replica_calculator.go.
    """
    return present if abs(1 - value / (average * present)) <= tolerance else math.ceil(value / average)


def test_example_of_the_guide_is_the_arithmetic_of_the_hpa() -> None:
    guide = (ROOT / "docs/how-to/what-to-scale-on.md").read_text()
    section = guide.split("## The arithmetic of the HPA and of KEDA")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (\d+) \| (\d+) \| ([\d.]+) \| (\d+) \|", section, re.M)
    assert len(rows) >= 5
    average = float(HPA["metrics"][0]["external"]["target"]["averageValue"])
    for present, value, ratio, wanted in rows:
        assert float(ratio) == pytest.approx(int(value) / (average * int(present)), abs=0.005)
        assert replicas(int(present), float(value), average) == int(wanted)
    assert any(int(present) == int(wanted) for present, _, _, wanted in rows), "one row shows the tolerance"


def test_percentiles_of_the_guide_are_those_of_erlang_c() -> None:
    """P(wait > t) = C(c, a) exp(-(c - a)t/S), solved for t at 5 %."""
    guide = (ROOT / "docs/how-to/what-to-scale-on.md").read_text()
    section = guide.split("## Why not a fixed utilisation")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (\d+) \| ([\d.]+) \|", section, re.M)
    assert len(rows) == 4
    mean_service, utilisation = 0.1, 0.7
    for workers, seconds in rows:
        load = utilisation * int(workers)
        wait = math.log(erlang_c(load, int(workers)) / 0.05) * mean_service / (int(workers) - load)
        assert float(seconds) == pytest.approx(max(wait, 0.0), abs=0.005)

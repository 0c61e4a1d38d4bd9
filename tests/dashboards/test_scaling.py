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
from urllib.parse import urlsplit

import pytest
import yaml
from promtool import Samples, assert_queries, promtool, series
from sojourn.export.metrics import BY_NAME
from sojourn.export.settings import HOLD
from sojourn.queueing.theory import erlang_c

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "dashboards/prometheus"
SCALING = FOLDER / "scaling"
MANIFESTS = ("hpa.yaml", "keda.yaml", "scrape.yaml")
KINDS = {
    "hpa.yaml": {"autoscaling/v2 HorizontalPodAutoscaler"},
    "keda.yaml": {"keda.sh/v1alpha1 ScaledObject"},
    "scrape.yaml": {"v1 ConfigMap", "apps/v1 Deployment", "monitoring.coreos.com/v1 PodMonitor"},
}
RULES: list[dict[str, Any]] = yaml.safe_load((SCALING / "prometheus-adapter.yaml").read_text())["externalRules"]
HPA: dict[str, Any] = yaml.safe_load((SCALING / "hpa.yaml").read_text())["spec"]
KEDA: dict[str, Any] = yaml.safe_load((SCALING / "keda.yaml").read_text())["spec"]
SCRAPE: list[dict[str, Any]] = list(yaml.safe_load_all((SCALING / "scrape.yaml").read_text()))
# Fields of a rule, as the adapter's documentation has them.
FIELDS = {"seriesQuery", "seriesFilters", "resources", "name", "metricsQuery"}
BUILD_DEADLINE_S = 400
BUCKETS = ("0.05", "0.1", "0.25", "+Inf")
SYNC_S = 15  # the HPA's own interval
Inputs = list[dict[str, str]]
Cases = list[tuple[str, Samples]]


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
    """The program that decodes manifests; skipped where Go or its modules are missing.

    Without a cache of earlier builds, Go compiles the types of Kubernetes for minutes: its tests are thorough ones.
    """
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


@pytest.mark.thorough
@pytest.mark.timeout(BUILD_DEADLINE_S + 60)
@pytest.mark.parametrize("name", MANIFESTS)
def test_manifest_has_only_fields_of_its_api(decoder: Path, name: str) -> None:
    done = decoded(decoder, SCALING / name)
    assert (done.returncode, done.stderr) == (0, "")
    assert {line.split(maxsplit=1)[1] for line in done.stdout.splitlines()} == KINDS[name]


@pytest.mark.thorough
@pytest.mark.timeout(BUILD_DEADLINE_S + 60)
def test_line_that_a_comment_offers_is_a_field_too(decoder: Path, tmp_path: Path) -> None:
    text = (SCALING / "hpa.yaml").read_text()
    assert text.count("# tolerance:") == 1
    (tmp_path / "hpa.yaml").write_text(text.replace("# tolerance:", "tolerance:"))
    assert decoded(decoder, tmp_path / "hpa.yaml").returncode == 0


@pytest.mark.thorough
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


def option(arguments: list[str], name: str) -> str:
    """Return the value of an option of a command."""
    return arguments[arguments.index(name) + 1]


def test_exporter_holds_as_long_as_the_autoscaler() -> None:
    (deployment,) = [manifest for manifest in SCRAPE if manifest["kind"] == "Deployment"]
    _, export = deployment["spec"]["template"]["spec"]["containers"]
    hold = int(option(export["args"], "--hold"))
    assert hold == HOLD == HPA["behavior"]["scaleDown"]["stabilizationWindowSeconds"]
    # The rate is that of a fifth of it, and an autoscaler's decision is not older than its own interval.
    (monitor,) = [manifest for manifest in SCRAPE if manifest["kind"] == "PodMonitor"]
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    interval, timeout = (int(endpoint[key].removesuffix("s")) for key in ("interval", "scrapeTimeout"))
    assert timeout < interval <= min(SYNC_S, hold / 5)


def test_exporter_reads_the_counters_of_the_nginx_beside_it() -> None:
    (deployment,) = [manifest for manifest in SCRAPE if manifest["kind"] == "Deployment"]
    (config,) = [manifest for manifest in SCRAPE if manifest["kind"] == "ConfigMap"]
    pod = deployment["spec"]["template"]["spec"]
    nginx, export = pod["containers"]
    url = urlsplit(option(export["args"], "--status"))
    (text,) = config["data"].values()
    assert f"listen {url.netloc};" in text
    assert f"location = {url.path} {{" in text
    (volume,) = [one["name"] for one in pod["volumes"] if one.get("configMap") == {"name": config["metadata"]["name"]}]
    (mount,) = [one for one in nginx["volumeMounts"] if one["name"] == volume]
    assert f"include {mount['mountPath']}/*.conf;" in (SCALING / "scrape.yaml").read_text()


def needed(instance: str, objective: str, value: int, service: str = "shop", method: str = "live") -> dict[str, str]:
    labels = {"service": service, "objective": objective, "method": method, "job": "sojourn", "instance": instance}
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


def refusals(metric: str, instance: str, *, service: str = "shop", reason: str = "", until: int = 41) -> Inputs:
    """Return 1 for the reason, 0 for the others; the exporter is not reached from sample ``until`` on."""
    return [
        series(
            metric,
            {"service": service, "reason": each, "job": "sojourn", "instance": instance},
            f"{float(each == reason):g}x{until - 1} stale",
        )
        for each in REASONS
    ]


def live_refusals(instance: str, reason: str = "", service: str = "shop") -> Inputs:
    return refusals("sojourn_live_refused", instance, service=service, reason=reason)


def replay_refusals(instance: str, reason: str = "", service: str = "shop") -> Inputs:
    return refusals("sojourn_signal_refused", instance, service=service, reason=reason)


REASONS = ("waits_not_reproduced", "limit_in_front")
P95, P99 = "queueing_delay:p95=0.1", "response_time:p99=1"
SHOP, IDLE, BLOG = {"service": "shop"}, {"service": "idle"}, {"service": "blog"}
# Eight workers, counted by two exporters. Of the queueing delay, the 95th of 100 lies halfway between 0.1 s (90) and
# 0.25 s (100).
WORKERS: Inputs = [
    gauge("sojourn_workers", "4", service="shop", upstream="10.0.0.1:80", instance="a"),
    gauge("sojourn_workers", "4", service="shop", upstream="10.0.0.1:80", instance="b"),
    gauge("sojourn_workers", "4", service="shop", upstream="10.0.0.2:80", instance="a"),
    *delays("shop", (50, 90, 100, 100)),
]
FORMULAS: Inputs = [
    needed(instance, P95, 70 + number, method=method)
    for number, method in enumerate(("erlang_c", "square_root"))
    for instance in ("a", "b")
]
# Two exporters with --status, a and b, of one service; a second service; one without workers and requests.
OTHERS: Inputs = [
    needed("a", P95, 3, service="blog", method="replay"),
    gauge("sojourn_offered_load_workers", "3.5", service="shop", instance="a"),
    gauge("sojourn_offered_load_workers", "2.5", service="shop", instance="b"),
    gauge("sojourn_offered_load_workers", "0", service="idle", instance="a"),
    gauge("sojourn_workers", "0", service="idle", upstream="10.0.0.3:80", instance="a"),
    gauge("sojourn_seconds_to_drain", "12", service="shop", instance="a"),
    gauge("sojourn_seconds_to_drain", "1e18", service="idle", instance="a"),
    *delays("idle", (0, 0, 0, 0)),
    *replay_refusals("a", service="idle"),
    *replay_refusals("b", service="idle"),
    *FORMULAS,
]
LIVE: Inputs = [
    needed("a", P95, 9),
    needed("a", P99, 12),
    needed("b", P95, 5),
    *live_refusals("a"),
    *live_refusals("b"),
    *replay_refusals("a"),
    *replay_refusals("b"),
]
REPLAY: Inputs = [
    needed("a", P95, 8, method="replay"),
    needed("a", P99, 14, method="replay"),
    needed("b", P95, 6, method="replay"),
    *replay_refusals("a"),
    *replay_refusals("b"),
]
EXPECTED: dict[str, Samples] = {
    "sojourn_workers_needed": [(SHOP, 17.0)],
    "sojourn_offered_load_workers": [(SHOP, 6.0)],
    "sojourn_saturation": [(SHOP, 0.75)],
    "sojourn_queueing_delay_p95_seconds": [(SHOP, 0.175)],
    "sojourn_queueing_delay_p95_while_refused_seconds": [(SHOP, 0.0)],
    "sojourn_seconds_to_drain": [(SHOP, 12.0)],
}
ALL_SERVICES: dict[str, Samples] = {
    "sojourn_workers_needed": [(BLOG, 3.0), (SHOP, 17.0)],
    "sojourn_offered_load_workers": [(IDLE, 0.0), (SHOP, 6.0)],
    "sojourn_saturation": [(SHOP, 0.75)],
    "sojourn_queueing_delay_p95_seconds": [(SHOP, 0.175)],
    "sojourn_queueing_delay_p95_while_refused_seconds": [(IDLE, 0.0), (SHOP, 0.0)],
    "sojourn_seconds_to_drain": [(IDLE, 3600.0), (SHOP, 12.0)],
}
NEEDED = "sojourn_workers_needed"
DELAY = "sojourn_queueing_delay_p95_while_refused_seconds"
REFUSED: Cases = [
    # The HPA has no number of workers and removes no pod; KEDA keeps the eight workers; both scale up on the delay.
    (QUERIES[NEEDED], []),
    (QUERIES[DELAY], [(SHOP, 0.175)]),
    (TRIGGER["metadata"]["query"], [({}, 8.0)]),
    (WHILE_REFUSED["metadata"]["query"], [({}, 0.175)]),
]


def number_of_workers(workers: float) -> Cases:
    """Return the cases of a number that is not refused: it counts, and the queueing delay does not."""
    return [
        (QUERIES[NEEDED], [(SHOP, workers)]),
        (QUERIES[DELAY], [(SHOP, 0.0)]),
        (TRIGGER["metadata"]["query"], [({}, workers)]),
        (WHILE_REFUSED["metadata"]["query"], [({}, 0.0)]),
    ]


def without(inputs: Inputs, metric: str, **labels: str) -> Inputs:
    """Return the series without those of a metric that have the labels."""
    matchers = [f'{key}="{value}"' for key, value in labels.items()]
    return [
        row
        for row in inputs
        if not (row["series"].startswith(f"{metric}{{") and all(matcher in row["series"] for matcher in matchers))
    ]


def test_queries_return_one_number_for_a_service(tmp_path: Path) -> None:
    assert set(EXPECTED) == set(QUERIES)
    cases = [(QUERIES[name], samples) for name, samples in EXPECTED.items()]
    assert_queries(tmp_path, [*LIVE, *WORKERS, *OTHERS], [*cases, *number_of_workers(17.0)])


def test_live_number_counts_beside_that_of_the_replay(tmp_path: Path) -> None:
    """Whatever the replay says, and also while it is refused: with --status the exporter judges live by itself."""
    replayed = [needed("a", P95, 30, method="replay"), needed("b", P95, 2, method="replay")]
    assert_queries(tmp_path, [*LIVE, *replayed, *WORKERS, *FORMULAS], number_of_workers(17.0))
    refused = [*without(LIVE, "sojourn_signal_refused", instance="a"), *replay_refusals("a", REASONS[0])]
    assert_queries(tmp_path, [*refused, *WORKERS, *FORMULAS], number_of_workers(17.0))


def test_replay_counts_where_there_is_no_live_number(tmp_path: Path) -> None:
    assert_queries(tmp_path, [*REPLAY, *WORKERS, *FORMULAS], number_of_workers(20.0))


def test_replay_counts_for_an_objective_without_live_number(tmp_path: Path) -> None:
    inputs = [
        *without(LIVE, NEEDED, objective=P99),
        needed("a", P95, 30, method="replay"),
        needed("a", P99, 14, method="replay"),
    ]
    assert_queries(tmp_path, [*inputs, *WORKERS, *FORMULAS], number_of_workers(19.0))


def test_replay_counts_for_an_exporter_without_status(tmp_path: Path) -> None:
    """Exporter a is configured with --status, b is not."""
    live = [row for row in LIVE if 'instance="a"' in row["series"]]
    replayed = [row for row in REPLAY if 'instance="b"' in row["series"]]
    assert_queries(tmp_path, [*live, *replayed, *WORKERS, *FORMULAS], number_of_workers(18.0))
    refused = [*without(replayed, NEEDED), *replay_refusals("b", REASONS[0])]
    refused = [*without(refused, "sojourn_signal_refused"), *replay_refusals("b", REASONS[0])]
    assert_queries(tmp_path, [*live, *refused, *WORKERS, *FORMULAS], REFUSED)


@pytest.mark.parametrize("reason", REASONS)
def test_refused_live_number_gives_way_to_the_queueing_delay(tmp_path: Path, reason: str) -> None:
    """Also where a replay has a number: of the other exporter, and of the same one."""
    inputs = without(without(LIVE, NEEDED, instance="a"), "sojourn_live_refused", instance="a")
    replayed = [needed("a", P95, 9, method="replay"), needed("b", P95, 5, method="replay")]
    assert_queries(tmp_path, [*inputs, *live_refusals("a", reason), *replayed, *WORKERS, *FORMULAS], REFUSED)


def test_refused_replay_gives_way_to_the_queueing_delay(tmp_path: Path) -> None:
    inputs = without(without(REPLAY, NEEDED, instance="a"), "sojourn_signal_refused", instance="a")
    assert_queries(tmp_path, [*inputs, *replay_refusals("a", REASONS[0]), *WORKERS, *FORMULAS], REFUSED)


def test_refused_replay_without_live_number_gives_way_to_the_queueing_delay(tmp_path: Path) -> None:
    """Live is not refused, but there is no number yet."""
    inputs = without(without(LIVE, NEEDED, instance="a"), "sojourn_signal_refused", instance="a")
    assert_queries(tmp_path, [*inputs, *replay_refusals("a", REASONS[0]), *WORKERS, *FORMULAS], REFUSED)


def test_exporter_that_is_down_gives_no_number(tmp_path: Path) -> None:
    """KEDA's fallback is for this, so that neither trigger may read as 0."""
    cases = [(trigger["metadata"]["query"], []) for trigger in KEDA["triggers"]]
    assert_queries(tmp_path, [gauge("up", "0", job="sojourn", instance="a")], cases)
    recent = refusals("sojourn_signal_refused", "a", until=10)
    assert_queries(tmp_path, [series("up", {"job": "sojourn", "instance": "a"}, "1x9 0x30"), *recent], cases)


def test_one_of_two_exporters_that_is_down_leaves_no_smaller_sum(tmp_path: Path) -> None:
    """Only while its target exists: a pod that was removed has no ``up``, and its requests go to the others."""
    inputs = [row for row in LIVE if 'instance="b"' in row["series"]]
    gone = [*refusals("sojourn_signal_refused", "a", until=10), *refusals("sojourn_live_refused", "a", until=10)]
    up = [gauge("up", "1", job="sojourn", instance="b"), gauge("up", "0", job="other", instance="a")]
    assert_queries(tmp_path, [*inputs, *gone, *up, *WORKERS, *FORMULAS], number_of_workers(5.0))
    down = series("up", {"job": "sojourn", "instance": "a"}, "1x9 0x30")
    assert_queries(tmp_path, [*inputs, *gone, *up, down, *WORKERS, *FORMULAS], REFUSED)


def test_queries_without_a_matcher_return_every_service(tmp_path: Path) -> None:
    cases = [(rendered(rule, ""), ALL_SERVICES[api_name(rule)]) for rule in RULES]
    assert_queries(tmp_path, [*LIVE, *WORKERS, *OTHERS], cases)


def test_services_without_requests_have_no_percentile_and_no_saturation(tmp_path: Path) -> None:
    names = ("sojourn_queueing_delay_p95_seconds", "sojourn_saturation")
    cases = [(rendered(rule, 'service="idle"'), []) for rule in RULES if api_name(rule) in names]
    assert len(cases) == len(names)
    assert_queries(tmp_path, [*LIVE, *WORKERS, *OTHERS], cases)


def test_prometheus_accepts_its_configuration(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "prometheus")
    promtool("check", "config", tmp_path / "prometheus/prometheus.yaml")


def test_prometheus_scrapes_the_exporter_of_compose() -> None:
    jobs = {job["job_name"]: job for job in yaml.safe_load((FOLDER / "prometheus.yaml").read_text())["scrape_configs"]}
    (target,) = jobs["sojourn"]["static_configs"][0]["targets"]
    service, port = target.split(":")
    command = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"][service]["command"]
    assert option(command, "--listen") == f"0.0.0.0:{port}"


def test_exporter_of_compose_reads_the_counters_of_its_nginx() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    url = urlsplit(option(services["export"]["command"], "--status"))
    assert url.hostname in services
    assert set(services["export"]["networks"]) & set(services["nginx"]["networks"])
    text = (ROOT / "lab/images/nginx/nginx.conf").read_text()
    (block,) = re.findall(rf"listen {url.port};\s+location = (\S+) {{([^}}]*)}}", text)
    assert block[0] == url.path
    assert "include sojourn/sojourn_status.conf;" in block[1]
    assert not any(f":{url.port}" in published for published in services["nginx"]["ports"])


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

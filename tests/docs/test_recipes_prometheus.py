"""The recipe for Prometheus: its configurations, its unit and its queries, by the programs that they are for."""

from __future__ import annotations

import configparser
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from docs_commands import parsed
from promtool import Samples, assert_queries, promtool, series
from recipe_support import blocks_of
from sojourn.export.metrics import BY_NAME

TABLE = json.loads((Path(__file__).parents[1] / "vectors" / "prometheus.json").read_text("utf-8"))
#: Metrics that the middleware exports, and no log contains.
INSIDE = {metric["name"] for metric in (*TABLE["inside"]["metrics"], TABLE["in_progress"])}
PAGE = "prometheus.md"
PAGES = (PAGE, "what-to-scale-on.md")
BLOCKS = blocks_of(PAGE)
CONFIGURATIONS = ("prometheus.yaml", "prometheus.yaml: pods with a container port named metrics")
UNIT = "/etc/systemd/system/sojourn-export.service"
QUERIES = ("p95", "objective", "mean", "age")
DEADLINE_S = 60
SUFFIXES = re.compile(r"_(bucket|sum|count)$")


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_S)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_prometheus_accepts_the_configurations(tmp_path: Path, name: str) -> None:
    # Debian's promtool is built without the discovery of Kubernetes.
    text = BLOCKS[name].replace("kubernetes_sd_configs: [{role: pod}]", "static_configs: [{targets: [pod]}]")
    (tmp_path / "prometheus.yaml").write_text(text)
    promtool("check", "config", tmp_path / "prometheus.yaml")


@pytest.mark.parametrize("page", PAGES)
def test_metrics_of_the_pages_exist(page: str) -> None:
    text = (Path(__file__).parents[2] / "docs/how-to" / page).read_text()
    names = set(re.findall(r"\bsojourn_[a-z0-9_]+\b", text))
    assert len(names) > 5
    unknown = {name for name in names if name not in BY_NAME and SUFFIXES.sub("", name) not in BY_NAME}
    assert unknown <= {"sojourn_middleware", "sojourn_status"} | INSIDE


def test_unit_calls_the_command_with_its_options(tmp_path: Path) -> None:
    unit = configparser.ConfigParser(strict=True, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(BLOCKS[UNIT])
    assert unit.sections() == ["Unit", "Service", "Install"]
    program, arguments = unit["Service"]["ExecStart"].split(maxsplit=1)
    assert Path(program).name == "sojourn"
    parsed(arguments)
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed: the unit was not verified")
    (tmp_path / "sojourn-export.service").write_text(BLOCKS[UNIT].replace(program, "/bin/true"))
    done = run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", tmp_path / "sojourn-export.service")
    assert (done.returncode, done.stderr) == (0, "")


# In 15 s: service a, 10 requests that waited 2 s in all, and 1 s too little by the clocks; service b, 5 of 3 s.
INPUT = [
    series("sojourn_queueing_delay_seconds_sum", {"service": "a", "route": "/x"}, "0+2x40"),
    series("sojourn_queueing_delay_seconds_count", {"service": "a", "route": "/x"}, "0+10x40"),
    series("sojourn_negative_queueing_delay_seconds_total", {"service": "a", "upstream": "u"}, "0+1x40"),
    series("sojourn_queueing_delay_seconds_sum", {"service": "b", "route": "/x"}, "0+3x40"),
    series("sojourn_queueing_delay_seconds_count", {"service": "b", "route": "/x"}, "0+5x40"),
    series("sojourn_objective_requests_total", {"service": "a", "objective": "o"}, "0+8x40"),
    series("sojourn_objective_met_total", {"service": "a", "objective": "o"}, "0+6x40"),
    *(
        series("sojourn_queueing_delay_seconds_bucket", {"service": "a", "route": "/x", "le": bound}, f"0+{count}x40")
        for bound, count in (("0.1", 90), ("0.2", 100), ("+Inf", 100))
    ),
    series("sojourn_state_timestamp_seconds", {"service": "a"}, "290x40"),
]
EXPECTED: dict[str, Samples] = {
    "p95": [({"route": "/x"}, 0.15)],
    "objective": [({"service": "a", "objective": "o"}, 0.75)],
    "mean": [({"service": "a"}, 0.1), ({"service": "b"}, 0.6)],
    "age": [({"service": "a"}, 10.0)],
}


@pytest.mark.parametrize("name", QUERIES)
def test_queries_return_the_figures_of_known_series(tmp_path: Path, name: str) -> None:
    assert_queries(tmp_path, INPUT, [(BLOCKS[name], EXPECTED[name])])


def test_every_query_of_the_page_is_run() -> None:
    marked = {name for name, text in BLOCKS.items() if "sojourn_" in text and name not in (*CONFIGURATIONS, UNIT)}
    assert marked == set(QUERIES) == set(EXPECTED)

"""The queue inferred from a plain log beside the measured one: of written logs first, then of real servers."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pytest
from lab_support import eventually, find_scenario, missed, sound_run
from sojourn.estimation.inferred import REFUSED
from sojourn_lab.errors import LabError
from sojourn_lab.results.analyses.inferred import compared
from sojourn_lab.runtime.interrupts import Interrupts
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.runtime import ProcessRuntime
from sojourn_lab.scenario.topology import Topology
from studies.inference import simulators as simulate
from studies.inference.__main__ import main
from studies.inference.accuracy import moves, others_of_a_second, reconstructed
from studies.inference.pages import recorded_page
from studies.inference.recorded import Recorded, recorded

pytestmark = pytest.mark.alone  # with several processes beside it, it takes minutes
SCENARIO_FILE = str(Path(__file__).parents[3] / "lab" / "studies" / "inference" / "inference.toml")
BEGIN = 1_767_225_600.0
REQUESTS, WORKERS = 4_000, 2


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose app measured what the simulation knows."""
    folder = tmp_path_factory.mktemp("run")
    rng = np.random.default_rng(4)
    service, routes = simulate.services(rng, REQUESTS, "exponential")
    arrival = simulate.poisson(rng, service, WORKERS, 0.8)
    log = simulate.logged(rng, arrival, simulate.first_come(arrival, service, WORKERS), routes)
    lines = []
    for number in np.argsort(log.departure, kind="stable"):
        took, end = log.departure[number] - log.arrival[number], BEGIN + log.departure[number]
        lines.append(json.dumps({
            "time": f"{end:.3f}", "request_id": f"r{number}", "status": "200", "request_time": f"{took:.3f}",
            "request_start": f"{end - took:.3f}", "upstream_addr": "10.0.0.1:80", "upstream_connect_time": "0.000",
            "upstream_header_time": f"{took:.3f}", "upstream_response_time": f"{took:.3f}", "route": "/a",
            "queueing_delay": f"{log.wait[number]:.6f}", "service_time": f"{took - log.wait[number]:.6f}",
            "service": "one",
        }))  # fmt: skip
    (folder / "access.jsonl").write_text("\n".join(lines) + "\n")
    topology = {"server": "gunicorn", "workers": WORKERS, "threads": 1}
    cases = [{"name": "one", "topology": topology, "split": {}}, {"name": "other", "topology": None, "split": None}]
    (folder / "run.json").write_text(json.dumps({"scenario": {"name": "made"}, "cases": cases}))
    return folder


def test_a_run_is_inferred_without_what_its_app_reported(run_folder: Path) -> None:
    (backend,) = recorded(run_folder)
    assert (backend.server, backend.slots, backend.result["workers"]) == ("gunicorn, 2", WORKERS, WORKERS)
    assert backend.result["verdict"] == "inferred"
    assert backend.error is not None
    assert abs(backend.error) < 0.02


def test_the_page_counts_verdicts_and_errors(run_folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    assert main([str(run_folder), "--out", str(page)]) == 0
    text = page.read_text()
    assert "1 backend: 1 inferred, 0 with a lower bound, 0 refused." in text
    assert "| made | one | gunicorn, 2 | 4,000 | inferred | 2 |" in text
    (backend,) = recorded(run_folder)
    refused = Recorded(
        "made", "two", "node", 1, {"requests": 900, "verdict": "refused", "wait": None, "workers": 7}, backend.measured
    )
    assert "| made | two | node | 900 | refused | – |" in recorded_page([backend, refused])


def test_a_folder_without_a_run_is_refused_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(LabError, match=r"it needs run\.json"):
        list(recorded(tmp_path))


def test_the_pictures_are_written(tmp_path: Path) -> None:
    assert main(["--pictures", str(tmp_path)]) == 0
    for name in ("inferred-service", "inferred-workers"):
        assert (tmp_path / f"{name}.svg").read_text().startswith("<svg")


def test_an_inferred_queue_beside_the_measured_one(run_folder: Path) -> None:
    import sojourn  # noqa: PLC0415

    rows = sojourn.split(run_folder / "access.jsonl").rows.collect()
    plain = rows.with_columns(queue_source=rows["queue_source"].str.replace("stamp", "none"))
    from sojourn.components.inferred.backends import inferences  # noqa: PLC0415

    (backend,) = inferences(plain.lazy())
    figures = compared(backend, rows)
    assert (figures["accepted"], figures["refused"], figures["workers"]) == (1, 0, WORKERS)
    assert figures["accepted_error"] == abs(figures["error"]) < 0.02
    assert abs(figures["p99_error"]) < 0.05


def test_a_number_of_workers_that_changes_is_seen_and_other_orders_are_refused_to_the_second() -> None:
    changes = list(moves(1, 12_000))
    assert sum(windows == change for change, windows, _ in changes) >= 0.7 * len(changes)
    assert all(abs(outcome.error) < 0.05 for _, _, outcome in changes if outcome.verdict == "inferred")
    rng = np.random.default_rng(2)
    service, routes = simulate.services(rng, 9_000, "exponential")
    arrival = simulate.poisson(rng, service, 4, 0.85)
    log = simulate.logged(rng, arrival, simulate.last_come(arrival, service, 4), routes)
    _, result = reconstructed(log, None)
    assert result.verdict == REFUSED
    first = next(iter(others_of_a_second(3, 8_500)))
    assert not first.wrong


@pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=str(Nginx.why_unavailable()))
def test_the_plain_log_holds_nothing_of_the_app(tmp_path: Path) -> None:
    topology = Topology(backends=1, plain_log=True)
    with ProcessRuntime(topology, tmp_path, tmp_path / "logs", Interrupts()) as runtime:
        for route in ("", "?route=/a"):
            urlopen(f"{runtime.url}/sleep/0.01{route}", timeout=20.0).read()
        plain = runtime.access_log.with_name("plain.log")
        eventually(lambda: plain.read_text().count("\n") >= 2, 60.0, "two lines in plain.log")
        lines = plain.read_text().splitlines()
    assert '"GET /sleep HTTP/1.1" 200' in lines[0]
    assert '"GET /a HTTP/1.1" 200' in lines[1]
    assert "0.01" not in lines[0].split('"')[1]


def test_the_scenario_has_every_usual_server() -> None:
    scenario = find_scenario(SCENARIO_FILE)
    topologies = [scenario.topology_of(case) for case in scenario.cases]
    assert {each.workers for each in topologies if each.server == "gunicorn" and each.threads == 1} == {1, 2, 4, 8}
    assert {each.server for each in topologies} == {"gunicorn", "uvicorn", "uwsgi", "php-fpm", "puma"}
    assert all(each.plain_log and each.backends == 1 for each in topologies)


@pytest.mark.scenario
@pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=str(Nginx.why_unavailable()))
def test_queues_of_real_servers_are_inferred(tmp_path: Path) -> None:
    assert missed(sound_run(tmp_path, SCENARIO_FILE, "--quick")) == []

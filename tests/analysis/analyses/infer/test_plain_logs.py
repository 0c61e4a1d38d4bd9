"""What every question makes of logs whose queue is inferred, refused, or inferred for some backends only."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sojourn
from plain_example import BEGIN, ROUTES, WORKERS, plain_log
from sojourn.analyses.blame.section import blame_section
from sojourn.analyses.compare.section import compare_section
from sojourn.analyses.depth.section import depth_section
from sojourn.analyses.goodput.section import goodput_section
from sojourn.analyses.infer.section import infer_section
from sojourn.analyses.laws.section import laws_section
from sojourn.analyses.split.section import split_section
from sojourn.cli import app
from sojourn.doctor.log import diagnosed_log
from sojourn.movie.write import film_of_rows
from sojourn.plots.pictures import picture
from sojourn.report.build import sections_of, write_report
from sojourn.report.short import in_short
from studies.inference import simulators as simulate
from typer.testing import CliRunner

REQUESTS = 10_500
FIRST, SECOND = "10.0.0.1:8000", "10.0.0.2:8000"
MARK = "inferred from the log, not measured"


def first_come(seed: int, workers: int, requests: int = REQUESTS) -> simulate.Logged:
    rng = np.random.default_rng(seed)
    service, routes = simulate.services(rng, requests, "routes")
    arrival = simulate.poisson(rng, service, workers, 0.85)
    return simulate.logged(rng, arrival, simulate.first_come(arrival, service, workers), routes)


def shared(seed: int) -> simulate.Logged:
    rng = np.random.default_rng(seed)
    service, routes = simulate.services(rng, REQUESTS, "routes")
    arrival = simulate.poisson(rng, service, WORKERS, 0.8)
    return simulate.logged(rng, arrival, simulate.processor_sharing(arrival, service, WORKERS), routes)


def later(log: simulate.Logged, seconds: float) -> simulate.Logged:
    return simulate.Logged(log.arrival + seconds, log.departure + seconds, log.routes, log.wait, log.response)


def write(path: Path, *logs: tuple[simulate.Logged, str], upstream_time: bool = True) -> Path:
    rows = sorted(
        (end, end - begin, int(route), address)
        for log, address in logs
        for begin, end, route in zip(log.arrival.tolist(), log.departure.tolist(), log.routes.tolist(), strict=True)
    )
    lines = []
    for end, took, route, address in rows:
        stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(BEGIN + end))
        times = f"{took:.3f} {address} {took:.3f}" if upstream_time else f"{took:.3f}"
        lines.append(
            f'192.0.2.1 - - [{stamp}] "GET {ROUTES[route]} HTTP/1.1" 200 5 "-" "-" {BEGIN + end:.3f} {times}\n'
        )
    path.write_text("".join(lines))
    return path


def write_haproxy(path: Path, log: simulate.Logged, queued: Sequence[int]) -> Path:
    """Write HAProxy's HTTP log: requests wait ``queued`` ms in its own queue before the rest of their time."""
    lines = []
    for number in np.argsort(log.departure, kind="stable").tolist():
        begin, took = BEGIN + log.arrival[number], round((log.departure[number] - log.arrival[number]) * 1000)
        at = time.strftime("%d/%b/%Y:%H:%M:%S", time.gmtime(begin)) + f".{round(begin * 1000) % 1000:03d}"
        lines.append(
            f"Jan  1 00:00:00 lb haproxy[1]: 10.0.1.2:3331 [{at}] http-in app/srv1 0/{queued[number]}/0/{took}/"
            f'{queued[number] + took} 200 27 - - ---- 1/1/1/1/0 0/0 "GET {ROUTES[log.routes[number]]} HTTP/1.1"\n'
        )
    path.write_text("".join(lines))
    return path


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("plain")
    fine, other = first_come(18, WORKERS), shared(19)
    before = first_come(20, WORKERS, 10_000)
    after = later(first_come(21, WORKERS + 2, 10_000), float(before.departure.max()) + 1)
    (folder / "fine.log").write_bytes(plain_log()[0])
    return {
        "fine": folder / "fine.log",
        "refused": write(folder / "refused.log", (other, FIRST)),
        "whole": write(folder / "whole.log", (fine, FIRST), upstream_time=False),
        "both": write(folder / "both.log", (fine, FIRST), (other, SECOND)),
        "moved": write(folder / "moved.log", (before, FIRST), (after, FIRST)),
        "haproxy": write_haproxy(folder / "haproxy.log", fine, [20] * REQUESTS),
        "haproxy refused": write_haproxy(folder / "haproxy-refused.log", other, [0] * REQUESTS),
    }


def printed(*arguments: str | Path) -> Any:
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("verb", ["blame", "depth", "laws", "whatif"])
def test_workers_given_do_not_hide_that_queues_are_inferred(logs: dict[str, Path], verb: str) -> None:
    result = printed(verb, logs["fine"], "--workers", "4", "--json")
    assert result["queue_source"] == {"inferred": REQUESTS}


def test_inferred_queues_are_a_note_and_no_failure(logs: dict[str, Path]) -> None:
    result = sojourn.split(logs["fine"])
    for section in (
        blame_section(sojourn.blame(result, workers=4)),
        depth_section(sojourn.depth(result)),
        laws_section(sojourn.laws(result, workers=4)),
        goodput_section(sojourn.goodput(result)),
    ):
        assert section.failures == (), section.key
        assert any(MARK in note for note in section.notes), section.key
    assert [station.wait_source for station in sojourn.laws(result).stations] == ["inferred"]


def test_an_unknown_queue_is_not_0(logs: dict[str, Path]) -> None:
    result = sojourn.split(logs["refused"])
    assert result.to_dict()["queueing_share"] is None
    rows = {row[0]: row[1:] for row in split_section(result).tables[0].rows}
    assert set(rows["queueing delay"]) == {"–"}
    assert result.mark == ""
    output = CliRunner().invoke(app, ["split", str(logs["refused"])]).stdout
    (line,) = (line for line in output.splitlines() if line.startswith("queueing delay  "))
    assert set(line.removeprefix("queueing delay").split()) == {"–"}
    depth = sojourn.depth(result)
    assert (depth.overall["utilisation"], depth.overall["waiting"]) == (None, None)
    worked = sojourn.goodput(result).to_dict()
    assert worked["worker_seconds"] is None
    assert {row["worked"] for row in worked["by"]["route"]} == {None}
    cause, cost = (line.text for line in in_short(result, sections_of(result))[:2])
    assert cause.startswith("Unknown: ")
    assert "unknown" in cost


def test_goodput_of_a_log_without_connect_times_does_not_say_that_the_app_was_not_reached(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    lines = plain_log(2_000)[0].decode().splitlines()
    path.write_text(
        "".join(f"{line.replace(' 200 512 ', ' 504 0 ') if n % 2 else line}\n" for n, line in enumerate(lines))
    )
    result = sojourn.goodput(path).to_dict()
    assert (result["given_up"], result["not_reached"], result["unknown"]) == (1_000, 0, 1_000)
    assert result["wasted_seconds"] is None


def test_goodput_counts_inferred_services(logs: dict[str, Path]) -> None:
    result = sojourn.split(logs["fine"])
    assert sojourn.goodput(result).worked == pytest.approx(result.means["service_time"] * REQUESTS)


def test_a_refused_backend_has_no_waits(logs: dict[str, Path]) -> None:
    section = infer_section(sojourn.infer(logs["refused"]))
    assert [table.title for table in section.tables] == ["ms", "Checks"]
    assert set(section.tables[0].rows[0][3:]) == {"–"}


def test_a_flat_picture_is_called_flat(logs: dict[str, Path]) -> None:
    (drawn,) = infer_section(sojourn.infer(logs["fine"])).pictures
    assert "flat, as in a first-come-first-served queue" in drawn.reading


def test_components_of_an_unknown_queue_are_not_compared(logs: dict[str, Path]) -> None:
    result = sojourn.compare(logs["refused"], logs["fine"], names=("old", "new"))
    assert (result.cause, result.tail_cause) == ("unknown", "unknown")
    assert "of the time of old is unknown" in result.sentence
    assert "queueing" not in result.sentence
    rows = {row[0]: row[1:] for row in compare_section(result).tables[1].rows}
    assert rows["queue"][0] == "–"
    assert set(rows["queue"][2:]) == {"–"}


@pytest.mark.parametrize("verb", ["whatif", "laws"])
def test_an_error_says_what_to_add(logs: dict[str, Path], verb: str) -> None:
    result = CliRunner().invoke(app, [verb, str(logs["whole"])])
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "$upstream_response_time" in str(result.exception)


def test_a_report_on_the_terminal_says_what_to_add(logs: dict[str, Path], tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["report", str(logs["whole"]), "--html", str(tmp_path / "r.html")])
    assert result.exit_code == 0
    assert "$upstream_response_time" in result.stdout


def test_a_changed_number_of_workers_is_said_where_one_is_used(logs: dict[str, Path]) -> None:
    result = sojourn.split(logs["moved"])
    assert result.inferred[0].result.windows
    blamed = sojourn.blame(result)
    assert blame_section(blamed).sentence.startswith("Unknown: ")
    predicted = sojourn.whatif(result, {"workers": "+1"})
    for text in (
        blame_section(blamed).failures[0],
        depth_section(sojourn.depth(result)).failures[0],
        predicted.refused,
    ):
        assert text is not None
        assert "number of workers" in text
        assert "--since" in text


def test_whatif_does_not_predict_from_services_that_are_mostly_drawn(logs: dict[str, Path]) -> None:
    result = sojourn.whatif(logs["both"], {"workers": "+1"})
    assert result.variants == []
    assert result.refused is not None
    assert f"the service time of {REQUESTS:,} of {2 * REQUESTS:,} requests is unknown" in result.refused
    assert any(note.startswith(f"Queueing delay of {SECOND}: not inferred.") for note in result.notes)


def test_the_verdict_names_the_backends_that_are_inferred(logs: dict[str, Path]) -> None:
    result = sojourn.split(logs["both"])
    assert result.sources == {"inferred": REQUESTS, "none": REQUESTS}
    assert f"The queueing delay of {FIRST} is {MARK}" in result.verdict.sentence


def test_separates_measured_and_inferred_backends(tmp_path: Path) -> None:
    lines = []
    for address, seed in ((FIRST, 18), (SECOND, 22)):
        log = first_come(seed, WORKERS)
        for number, (begin, end) in enumerate(zip(log.arrival.tolist(), log.departure.tolist(), strict=True)):
            wait, took = float(log.wait[number]), f"{end - begin:.3f}"
            known = address == SECOND
            lines.append((end, {
                "time": f"{BEGIN + end:.3f}", "request_id": f"{seed}-{number}", "status": "200", "request_time": took,
                "upstream_addr": address, "upstream_connect_time": "0.000", "upstream_header_time": took,
                "upstream_response_time": took, "request_start": f"{BEGIN + begin:.3f}",
                "route": ROUTES[log.routes[number]], "queueing_delay": f"{wait:.6f}" if known else "",
                "service_time": f"{log.response[number] - wait:.6f}" if known else "",
            }))  # fmt: skip
    path = tmp_path / "access.jsonl"
    path.write_text("".join(f"{json.dumps(record)}\n" for _, record in sorted(lines, key=lambda each: each[0])))
    result = sojourn.split(path)
    assert result.sources == {"stamp": REQUESTS, "inferred": REQUESTS}
    assert result.mark == " (part inferred)"
    assert f"The queueing delay of {FIRST} is {MARK}" in result.verdict.sentence
    laws = sojourn.laws(result)
    assert {station.station.name: station.wait_source for station in laws.stations[1:]} == {
        FIRST: "inferred",
        SECOND: "measured",
    }
    blamed = blame_section(sojourn.blame(result))
    assert any(FIRST in note and MARK in note for note in blamed.notes)
    assert any("--workers" in failure for failure in blamed.failures)  # of the measured one, which names no workers


def test_a_movie_shows_no_more_workers_than_were_inferred(logs: dict[str, Path]) -> None:
    film = film_of_rows(sojourn.split(logs["fine"]), title="plain")
    assert [lane.workers for lane in film.scenes[0].lanes] == [WORKERS]
    assert film.scenes[0].place.max() == WORKERS - 1


def test_charts_with_queueing_delays_are_marked(logs: dict[str, Path]) -> None:
    result = sojourn.split(logs["fine"])
    for kind in ("ccdf", "percentiles", "ridgeline", "tail"):
        drawn = picture(result, kind)
        assert (drawn.title.endswith("(inferred)"), MARK in drawn.caption) == (True, True), kind
    assert MARK not in picture(result, "heatmap").caption
    marked = [each.key for each in split_section(result).pictures if MARK in each.caption]
    assert len(marked) == len(split_section(result).pictures) - 1  # all but that of response times


def test_the_proxys_own_queue_is_part_of_the_page_and_beside_the_inferred_one(
    logs: dict[str, Path], tmp_path: Path
) -> None:
    result = sojourn.split(logs["haproxy"])
    assert result.means["proxy_queue"] == pytest.approx(0.02)
    write_report(result, tmp_path / "r.html")
    row = re.search(r'<tr class="queueing">.*?<td>(\d+) %</td>', (tmp_path / "r.html").read_text(), re.DOTALL)
    assert row is not None
    assert int(row[1]) == pytest.approx(100 * (result.queueing_share or 0.0), abs=0.5)
    assert any(
        "20.0 ms on average in the proxy's own queue" in note for note in infer_section(sojourn.infer(result)).notes
    )


def test_doctor_accepts_an_inferred_queue_and_asks_no_other_proxy_for_lines_of_nginx(logs: dict[str, Path]) -> None:
    fine = {each.code: each for each in diagnosed_log(str(logs["fine"])).findings}
    assert fine["app-silent"].severity == "warning"
    assert "4 workers" in fine["app-silent"].why
    refused = {each.code: each for each in diagnosed_log(str(logs["haproxy refused"])).findings}
    assert refused["app-silent"].severity == "error"
    assert "not inferred" in refused["app-silent"].why
    assert not {"stamp-missing", "ids-missing"} & refused.keys()
    assert not any("nginx.conf" in (each.into or "") for each in refused.values())


def test_reconstructed_instants_are_not_called_fine(logs: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    parts = (line.rsplit(" ", 4) for line in logs["fine"].read_text().splitlines())
    path.write_text("".join(f"{' '.join((head, *rest))}\n" for head, _, *rest in parts))
    checked = sojourn.split(path).audit
    assert checked.ticks["time"] == 1.0
    (check,) = (check for check in checked.checks if check.name == "resolution")
    assert check.verdict == "unknown"
    assert "$msec" in check.sentence


def test_wait_is_not_cut_at_headers_that_a_gateway_sent_early(tmp_path: Path) -> None:
    """Every header after 2 ms, the body when the worker has done its work."""
    log = first_come(22, WORKERS)
    order = np.argsort(log.departure, kind="stable")
    records = (
        {
            "time": f"{BEGIN + log.departure[each]:.3f}",
            "request_time": f"{log.departure[each] - log.arrival[each]:.3f}",
            "status": "200",
            "route": ROUTES[int(log.routes[each])],
            "upstream_addr": FIRST,
            "upstream_status": "200",
            "upstream_connect_time": "0.000",
            "upstream_header_time": "0.002",
            "upstream_response_time": f"{log.departure[each] - log.arrival[each]:.3f}",
        }
        for each in order.tolist()
    )
    path = tmp_path / "early.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    result = sojourn.split(path)
    inferred = sojourn.infer(path).to_dict()["backends"][0]["wait"]["mean"]
    assert log.wait.mean() > 0.02
    assert result.means["queue"] == pytest.approx(float(log.wait.mean()), rel=0.05)
    assert result.means["queue"] == pytest.approx(inferred, rel=0.01)
    assert result.audit.identity_max_error < 1e-9
    assert min(result.means[name] for name in ("service_time", "transfer")) >= 0

"""The question ``infer``, and what the other questions make of inferred queues."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import sojourn
from plain_example import EXAMPLES, WORKERS, plain_log
from sojourn.cli import app
from sojourn.components.expressions import component_sum
from sojourn.present.drawing import specification
from sojourn.store import init, load
from typer.testing import CliRunner

EXAMPLE = EXAMPLES / "plain.log.gz"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray[Any, Any]]:
    text, wait = plain_log()
    path = tmp_path_factory.mktemp("plain") / "access.log"
    path.write_bytes(text)
    return path, wait


def run(*arguments: str | Path) -> str:
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_example_is_what_its_program_writes() -> None:
    assert gzip.decompress(EXAMPLE.read_bytes()) == plain_log()[0]


def test_infers_workers_and_waits(log: tuple[Path, np.ndarray[Any, Any]]) -> None:
    path, wait = log
    printed = json.loads(run("infer", path, "--json"))
    (backend,) = printed["backends"]
    assert (backend["upstream"], backend["verdict"], backend["workers"]) == ("10.0.0.1:8000", "inferred", WORKERS)
    assert backend["wait"]["mean"] == pytest.approx(wait.mean(), rel=0.01)
    assert backend["wait"]["p99"] == pytest.approx(np.quantile(wait, 0.99), rel=0.01)
    assert backend["workers_set"][0] <= WORKERS <= backend["workers_set"][1]
    assert not any(check["failed"] for check in backend["checks"])
    assert backend["requests"] == len(wait)
    assert (backend["moved"], backend["windows"]) == (False, [])
    assert printed["formats"][0]["certainty"] == "assumed"  # its two times are always equal


def test_the_split_is_inferred_and_says_so(log: tuple[Path, np.ndarray[Any, Any]]) -> None:
    path, wait = log
    result = sojourn.split(path)
    assert result.sources == {"inferred": len(wait)}
    assert result.means["queue"] == pytest.approx(wait.mean(), rel=0.01)
    assert "inferred from the log, not measured" in result.verdict.sentence
    assert result.audit.known.total.inferred == len(wait)
    assert result.audit.app_known == 0  # nothing is measured
    rows = result.rows.select(component_sum().alias("sum"), "request_time", "queue_source").collect()
    assert (rows["sum"] - rows["request_time"]).abs().max() < 1e-9  # type: ignore[operator]
    assert set(rows["queue_source"]) == {"inferred"}
    printed = result.to_dict()
    assert printed["inference"][0]["verdict"] == "inferred"
    assert "queueing delay (inferred)" in run("split", path)


@pytest.mark.parametrize("verb", ["blame", "depth", "laws"])
def test_other_questions_use_it_and_say_so(log: tuple[Path, np.ndarray[Any, Any]], verb: str) -> None:
    assert "inferred from the log, not measured" in " ".join(run(verb, log[0]).split())


def test_blame_charges_the_inferred_wait(log: tuple[Path, np.ndarray[Any, Any]]) -> None:
    path, wait = log
    result = sojourn.blame(path)
    assert result.waited == pytest.approx(wait.sum(), rel=0.01)
    assert result.blamed == pytest.approx(result.waited, rel=0.01)  # one backend, whose workers never idle
    (depth,) = sojourn.depth(path).workers
    assert (depth["workers"], depth["source"]) == (WORKERS, "inferred")


def test_whatif_replays_it(log: tuple[Path, np.ndarray[Any, Any]]) -> None:
    result = sojourn.whatif(log[0], variants={"workers": "+1"})
    assert abs(result.error["mean"]) < 0.02
    assert result.variants[0].response_time["mean"] < 0.8 * result.measured["response_time"]["mean"]


@pytest.fixture(scope="module")
def report(log: tuple[Path, np.ndarray[Any, Any]], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of the log."""
    page = tmp_path_factory.mktemp("report") / "report.html"
    run("report", log[0], "--html", page)
    return page.read_text()


def test_the_report_has_a_section(report: str, tmp_path: Path) -> None:
    assert "Inferred queue" in report
    assert "inferred from the log, not measured" in report
    measured = tmp_path / "measured.html"
    run("report", EXAMPLES / "shop.jsonl.gz", "--html", measured)
    assert "Inferred queue" not in measured.read_text()


def test_every_question_marks_what_is_inferred(
    log: tuple[Path, np.ndarray[Any, Any]], report: str, tmp_path: Path
) -> None:
    mark = "inferred from the log, not measured"
    for command in ("split", "blame", "depth", "laws", "whatif"):
        assert mark in " ".join(run(command, log[0]).split()), command
    assert mark in " ".join(run("compare", log[0], log[0]).split())
    film, flow = tmp_path / "film.html", tmp_path / "flow.svg"
    assert mark in " ".join(run("movie", log[0], "--out", film).split())
    assert "(inferred)" in film.read_text()
    run("plot", log[0], "flow", "--out", flow)
    assert "(inferred)" in flow.read_text()
    assert mark in json.loads(run("plot", log[0], "hexbin", "--json"))["caption"]
    assert mark not in json.loads(run("plot", log[0], "goodput", "--json"))["caption"]
    assert mark in report


def test_measured_queues_are_never_mixed_with_inferred_ones() -> None:
    result = sojourn.split(EXAMPLES / "shop.jsonl.gz")
    assert result.inferred == ()
    assert "inferred" not in result.sources
    with pytest.raises(sojourn.SojournError, match="there is nothing to infer"):
        sojourn.infer(EXAMPLES / "shop.jsonl.gz")


def test_an_own_log_of_a_silent_app_is_inferred_too(tmp_path: Path) -> None:
    """Requests of the plain log as Sojourn's own records, without any header of the app."""
    text, wait = plain_log()
    lines = []
    for number, line in enumerate(text.decode().splitlines()):
        end, took, address, upstream = line.rsplit(" ", 4)[1:]
        lines.append(json.dumps({
            "time": end, "request_id": f"r{number}", "status": "200", "request_time": took, "upstream_addr": address,
            "upstream_connect_time": "0.000", "upstream_header_time": upstream, "upstream_response_time": upstream,
            "request_start": f"{float(end) - float(took):.3f}", "route": line.split('"')[1].split()[1],
        }))  # fmt: skip
    path = tmp_path / "access.jsonl"
    path.write_text("\n".join(lines) + "\n")
    result = sojourn.split(path)
    assert result.means["queue"] == pytest.approx(wait.mean(), rel=0.01)
    assert result.sources == {"inferred": len(wait)}


@pytest.mark.parametrize(
    ("change", "advice"),
    [
        (lambda line: " ".join((*line.rsplit(" ", 4)[:1], *line.rsplit(" ", 4)[2:])), "with $msec"),
        (lambda line: " ".join(line.rsplit(" ", 4)[:3]), '"upstream_response_time":"$upstream_response_time"'),
    ],
    ids=["no milliseconds", "no time of the backend"],
)
def test_says_what_to_add(log: tuple[Path, np.ndarray[Any, Any]], tmp_path: Path, change: Any, advice: str) -> None:
    path = tmp_path / "access.log"
    path.write_text("".join(f"{change(line)}\n" for line in log[0].read_text().splitlines()))
    assert advice in " ".join(run("split", path).split())


def test_stamps_of_a_second_are_reconstructed(log: tuple[Path, np.ndarray[Any, Any]], tmp_path: Path) -> None:
    """The order of the lines and their durations are enough, and less exact; few lines want the number of workers."""
    path = tmp_path / "access.log"
    lines = [" ".join((*line.rsplit(" ", 4)[:1], *line.rsplit(" ", 4)[2:])) for line in log[0].read_text().splitlines()]
    path.write_text("".join(f"{line}\n" for line in lines))
    (backend,) = json.loads(run("infer", path, "--json"))["backends"]
    assert (backend["verdict"], backend["workers"]) == ("inferred", WORKERS)
    assert "reconstructed from stamps of a second" in backend["reason"]
    response = backend["wait"]["mean"] + backend["service"]["mean"]
    assert abs(backend["wait"]["mean"] - log[1].mean()) < 0.02 * response
    _used_by_other_questions(path, log[1].mean(), response)
    path.write_text("".join(f"{line}\n" for line in lines[:3000]))
    (few,) = json.loads(run("infer", path, "--json"))["backends"]
    assert (few["verdict"], "give --workers" in few["reason"]) == ("refused", True)
    (given,) = json.loads(run("infer", path, "--workers", "4", "--json"))["backends"]
    assert abs(given["wait"]["mean"] - log[1][:3000].mean()) < 0.05 * response
    path.write_text("".join(f"{line}\n" for line in reversed(lines)))
    (disordered,) = json.loads(run("infer", path, "--json"))["backends"]
    assert "not in the order in which requests ended" in disordered["reason"]


def _used_by_other_questions(path: Path, wait: float, response: float) -> None:
    """Split and depth have the reconstructed waits and instants."""
    result = sojourn.split(path)
    assert abs(result.means["queue"] - wait) < 0.02 * response
    assert set(result.sources) == {"inferred"}
    assert any("with $msec" in note for note in result.notes)
    begun = result.rows.select(pl.col("start").dt.epoch("us") % 1_000).collect().to_series()
    assert begun.n_unique() > 500  # instants between the milliseconds that durations alone would give
    depth = sojourn.depth(result)
    # Little's law of the queue: the mean number of waiting requests is the arrival rate times the mean wait.
    rows = result.rows.select("start", "request_time").collect()
    seconds = (rows["start"].max() - rows["start"].min()).total_seconds()  # type: ignore[operator,union-attr]
    assert depth.to_dict()["overall"]["waiting"] == pytest.approx(len(rows) / seconds * wait, rel=0.03)


@pytest.mark.parametrize("share", [pytest.param(0.02, marks=pytest.mark.thorough), 0.2])
def test_slow_clients_change_nothing_with_milliseconds_and_are_refused_without(
    log: tuple[Path, np.ndarray[Any, Any]], tmp_path: Path, share: float
) -> None:
    rng = np.random.default_rng(3)
    lines, seconds = [], []
    for line in log[0].read_text().splitlines():
        text, end, took, address, upstream = line.rsplit(" ", 4)
        late = float(rng.exponential(2.0)) if rng.random() < share else 0.0
        head, stamp = text.split("[")[0], datetime.fromtimestamp(float(end) + late, UTC)
        text = f"{head}[{stamp:%d/%b/%Y:%H:%M:%S +0000}]{text.split(']')[1]}"
        ended = float(end) + late
        lines.append((ended, f"{text} {ended:.3f} {float(took) + late:.3f} {address} {upstream}\n"))
        seconds.append((ended, f"{text} {float(took) + late:.3f} {address} {upstream}\n"))
    path = tmp_path / "access.log"
    path.write_text("".join(line for _, line in sorted(lines)))
    (backend,) = sojourn.infer(path).backends
    assert backend.result.verdict == "inferred"
    assert backend.result.wait.mean() == pytest.approx(log[1].mean(), rel=0.01)
    path.write_text("".join(line for _, line in sorted(seconds)))
    (coarse,) = sojourn.infer(path).backends
    if share > 0.05:
        assert (coarse.result.verdict, "clients took long" in coarse.result.reason) == ("refused", True)
    else:
        assert abs(coarse.result.wait.mean() - log[1].mean()) < 0.05 * coarse.result.service.mean()


def test_workers_can_be_given(log: tuple[Path, np.ndarray[Any, Any]]) -> None:
    for option in ("4", "10.0.0.1:8000=4"):
        (backend,) = json.loads(run("infer", log[0], "--workers", option, "--json"))["backends"]
        assert (backend["verdict"], backend["workers_set"]) == ("inferred", [4, 4])
    (wrong,) = json.loads(run("infer", log[0], "--workers", "2", "--json"))["backends"]
    assert (wrong["verdict"], wrong["contradictions"] > 100) == ("refused", True)


@pytest.mark.parametrize(
    "verb", ["split", "depth", *(pytest.param(verb, marks=pytest.mark.thorough) for verb in ("blame", "laws"))]
)
def test_a_stated_number_of_workers_is_what_every_question_infers_with(tmp_path: Path, verb: str) -> None:
    """Instants of whole seconds: these are too few requests for an unknown number of workers."""
    text, waits = plain_log(4_000)
    log = tmp_path / "seconds.log"
    log.write_bytes(re.sub(rb'"-" "-" [0-9.]+ ', b'"-" "-" ', text))
    assert sojourn.split(log).queueing_share is None
    result = getattr(sojourn, verb)(log, workers=4)
    split = sojourn.split(log, workers=4)
    assert split.sources == {"inferred": 4_000}
    assert split.components["queueing_delay"]["mean"] == pytest.approx(waits.mean(), rel=0.15)
    assert "give --workers" not in str(result.section)


def test_backends_are_inferred_one_by_one(log: tuple[Path, np.ndarray[Any, Any]], tmp_path: Path) -> None:
    """Two logs of one backend are merged; another backend has a queue of its own."""
    lines = log[0].read_text().splitlines(keepends=True)
    (tmp_path / "a.log").write_text("".join(lines[::2]))
    (tmp_path / "b.log").write_text("".join(lines[1::2]))
    (tmp_path / "c.log").write_text("".join(line.replace("10.0.0.1:", "10.0.0.2:") for line in lines))
    merged, other = sojourn.infer([tmp_path / name for name in ("a.log", "b.log", "c.log")]).backends
    assert {merged.upstream, other.upstream} == {"10.0.0.1:8000", "10.0.0.2:8000"}
    assert merged.result.workers == other.result.workers == WORKERS
    assert merged.result.wait.mean() == pytest.approx(other.result.wait.mean(), rel=1e-6)


@pytest.mark.parametrize("ahead", [0.02, pytest.param(-0.007, marks=pytest.mark.thorough)])
def test_skew_between_two_proxies_is_estimated(
    log: tuple[Path, np.ndarray[Any, Any]], tmp_path: Path, ahead: float
) -> None:
    lines = log[0].read_text().splitlines()
    rng = np.random.default_rng(1)
    first: list[str] = []
    second: list[str] = []
    for line, other in zip(lines, rng.random(len(lines)) < 0.4, strict=True):
        text, end, rest = line.rsplit(" ", 4)[0], float(line.rsplit(" ", 4)[1]), " ".join(line.rsplit(" ", 4)[2:])
        (second if other else first).append(f"{text} {end + ahead * other:.3f} {rest}\n")
    (tmp_path / "a.log").write_text("".join(first))
    (tmp_path / "b.log").write_text("".join(second))
    both = [tmp_path / "a.log", tmp_path / "b.log"]
    (backend,) = sojourn.infer(both).backends
    assert list(backend.skews) == [str(tmp_path / "b.log")]
    assert backend.skews[str(tmp_path / "b.log")] == pytest.approx(ahead, abs=0.0021)
    assert (backend.result.verdict, backend.result.workers) == ("inferred", WORKERS)
    assert backend.result.wait.mean() == pytest.approx(log[1].mean(), rel=0.01)
    note = " ".join(run("infer", *both).split())
    assert "ms ahead of that of the proxy" in note if ahead > 0 else "ms behind that of the proxy" in note


def test_two_proxies_with_one_clock_have_no_skew(log: tuple[Path, np.ndarray[Any, Any]], tmp_path: Path) -> None:
    lines = log[0].read_text().splitlines(keepends=True)
    for name, part in (("a.log", lines[::2]), ("b.log", lines[1::2])):
        (tmp_path / name).write_text("".join(part))
    (backend,) = sojourn.infer([tmp_path / "a.log", tmp_path / "b.log"]).backends
    assert backend.to_dict()["skew"] == {}


def test_the_picture_shows_a_flat_service_time(log: tuple[Path, np.ndarray[Any, Any]]) -> None:
    result = sojourn.infer(log[0])
    from sojourn.analyses.infer.section import infer_section  # noqa: PLC0415

    (picture,) = infer_section(result).pictures
    assert "Between" in picture.reading
    assert json.dumps(specification(picture.chart(), "page"))
    busy = result.service.filter(pl.col("requests") > 200)["service"]
    assert busy.max() / busy.min() < 1.35  # type: ignore[operator]


def test_rows_of_a_store_are_inferred(log: tuple[Path, np.ndarray[Any, Any]], store_dsn: str) -> None:
    init(store_dsn)
    load(store_dsn, log[0])
    result = sojourn.infer(store_dsn)
    assert result.backends[0].result.workers == WORKERS
    assert result.backends[0].result.wait.mean() == pytest.approx(log[1].mean(), rel=0.01)


def test_reading_measured_requests_loads_no_engine() -> None:
    script = (
        "import sys, sojourn\n"
        "sojourn.split(sys.argv[1])\n"
        "print([name for name in ('sojourn.estimation.engine', 'sojourn.estimation.sampler') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, EXAMPLES / "shop.jsonl.gz"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"

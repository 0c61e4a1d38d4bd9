"""A store's windows of load are those of the log it was loaded from, and no request is fetched for them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import sojourn
from sojourn.analyses.capacity.analysis import capacity
from sojourn.analyses.capacity.knee import Slo
from sojourn.analyses.capacity.store import store_load_windows
from sojourn.cli import app
from sojourn.model.frame import Selection
from sojourn.store import load
from sojourn.timeline.load_windows import load_windows
from split_support import EPOCH, Settings, as_lines, differences, line, simulated_log
from typer.testing import CliRunner


@pytest.fixture(scope="module")
def loaded(make_store: Callable[[], str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A log with failures, an upgraded connection and requests that were never proxied, and a store that holds it."""
    records, _ = simulated_log(Settings(requests=4000))
    rng = random.Random(5)
    for record in records:
        record["status"] = rng.choice(["200"] * 8 + ["503", "499"])
    lines = as_lines(records)
    lines += [line(time=f"{EPOCH + i}.250", request_time="0.002", uri=f"/{i}") for i in range(60)]
    lines.append(line(time=f"{EPOCH + 60}.000", request_time="55.000", status="101"))
    log = tmp_path_factory.mktemp("capacity") / "access.jsonl"
    log.write_bytes(b"".join(lines))
    dsn = make_store()
    for _ in range(2):  # what is delivered twice counts once
        load(dsn, log)
    return log, dsn


@pytest.mark.parametrize("by_instance", [False, True])
@pytest.mark.parametrize("width", [None, 1.0, 7.5, 60.0])
def test_its_windows_are_those_of_the_log(loaded: tuple[Path, str], width: float | None, by_instance: bool) -> None:
    log, dsn = loaded
    wanted = load_windows(sojourn.split(log).rows, width=width, by_instance=by_instance)
    result = store_load_windows(dsn, width=width, by_instance=by_instance)
    assert (result.begin, result.width, result.requests, result.upstreams) == (
        wanted.begin, wanted.width, wanted.requests, wanted.upstreams,
    )  # fmt: skip
    assert result.table.columns == wanted.table.columns
    assert list(differences(wanted.table.to_dicts(), result.table.to_dicts())) == []
    assert len(result.table) > 1
    assert set(result.table["instance"]) == ({"10.0.0.1:8080", "10.0.0.2:8080"} if by_instance else {""})


def test_its_answer_is_that_of_the_log(loaded: tuple[Path, str]) -> None:
    log, dsn = loaded
    arguments = {"slos": [Slo("p99", 0.5), Slo("errors", 0.5)], "target_rate": 100.0, "headroom": 0.3}
    selection = Selection.of(EPOCH + 10, None, {"status": 200.0})
    rows_of_log = sojourn.split(log, since=EPOCH + 10, where={"status": 200.0}).rows
    wanted = capacity(load_windows(rows_of_log), **arguments).to_dict()  # type: ignore[arg-type]
    result = capacity(store_load_windows(dsn, selection), **arguments).to_dict()  # type: ignore[arg-type]
    assert list(differences(wanted, result)) == []


def test_no_request_is_fetched(loaded: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sojourn.sources.opened_store.read_store", None)
    monkeypatch.setattr("sojourn.sources.store_rows.stream_store", None)
    result = CliRunner().invoke(app, ["capacity", loaded[1], "--slo", "p99=0.5", "--json"])
    assert result.exit_code == 0, result.output
    assert '"knees"' in result.stdout


def test_quantiles_of_very_many_requests_are_cut_and_it_is_said(loaded: tuple[Path, str]) -> None:
    exact, cut = store_load_windows(loaded[1]), store_load_windows(loaded[1], exact_rows=100)
    assert "four digits" in cut.notes[0]
    for one, other in zip(exact.table["p50"], cut.table["p50"], strict=True):
        assert other == pytest.approx(one, rel=0.1, abs=0.002)


def test_two_stores_compare_as_their_logs_do(
    loaded: tuple[Path, str], make_store: Callable[[], str], tmp_path: Path
) -> None:
    other = tmp_path / "other.jsonl"
    other.write_bytes(b"".join(as_lines(simulated_log(Settings(requests=1500, seed=9))[0])))
    dsn = make_store()
    load(dsn, other)
    of_logs, of_stores = (
        json.loads(CliRunner().invoke(app, ["compare", str(one), str(two), "--json"]).stdout)
        for one, two in ((loaded[0], other), (loaded[1], dsn))
    )
    for part in ("response_time", "components", "tail", "by"):
        assert list(differences(of_logs[part], of_stores[part])) == []


def test_an_empty_store_says_so(store_dsn: str) -> None:
    with pytest.raises(sojourn.SojournError, match="no request"):
        store_load_windows(store_dsn)

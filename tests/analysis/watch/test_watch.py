"""The last ten minutes: figures as of split, causes of waiting as of blame, and their layout on a screen."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import sojourn
from pool_simulator import EPOCH as POOL_EPOCH
from pool_simulator import PoolSettings, as_lines, simulated_pool
from sojourn.analyses.blame.run import blame
from sojourn.model.formatting import duration, percent
from sojourn.model.measures import GROUP_COLUMNS
from sojourn.sources.live import recent as recent_module
from sojourn.sources.live.log_clock import LogClock
from sojourn.sources.live.pace import Paced
from sojourn.sources.live.parsing import Parser
from sojourn.sources.live.recent import Recent
from sojourn.watch.cells import SORTS, name_cell, sorted_rows, sparkline
from sojourn.watch.screen import Looks, screen, text_of
from sojourn.watch.view import WINDOWS, View
from sojourn.watch.watcher import Choice
from syrupy.assertion import SnapshotAssertion
from watch_support import EPOCH, at, given_up, record, watching

BUSY = PoolSettings(requests=4_000, rate=22, timeout=3.0, patience=(0.2, 1.0), seed=11)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three minutes of a busy pool with two clock offsets, timeouts, and clients that close early."""
    path = tmp_path_factory.mktemp("watch") / "access.jsonl"
    records, _ = simulated_pool(BUSY)
    path.write_bytes(b"".join(as_lines(records)))
    return path


@pytest.fixture(scope="module")
def latest(pool: Path) -> View:
    with watching(pool) as watcher:
        assert watcher.recent.last is not None
        return watcher.view(Choice(), datetime.now(UTC), watcher.recent.last)


# --- figures as of split


def lines_of(pool: Path, seconds: float) -> list[str]:
    lines = pool.read_text().splitlines()
    last = max(float(json.loads(line)["time"]) for line in lines)
    return [line for line in lines if float(json.loads(line)["time"]) > last - seconds]


def test_ten_minutes_equal_the_split_of_the_same_lines(pool: Path, latest: View) -> None:
    split = sojourn.split(pool, by=["route"]).to_dict()
    result = sojourn.model.formatting.rounded(latest.windows["10m"].to_dict("route"))
    assert result["requests"] == split["requests"] == 4_000
    for key in ("response_time", "queueing_share"):
        assert result[key] == split[key]
    assert result["queueing_delay"] == split["components"]["queueing_delay"]
    assert result["service_time"] == split["components"]["service_time"]
    assert result["verdict"] == {key: value for key, value in split["verdict"].items() if key != "culprit"}
    assert result["app_known"] == split["audit"]["app_known"]
    for row, expected in zip(result["by"]["route"], split["by"]["route"], strict=True):
        assert {key: row[key] for key in expected} == expected


@pytest.mark.parametrize(("name", "seconds"), [("now", 10.0), ("1m", 60.0)])
def test_shorter_window_equals_the_split_of_its_lines_with_all_clocks(
    pool: Path, latest: View, name: str, seconds: float
) -> None:
    rows = sojourn.split(pool).rows.collect()
    last = rows["time"].max()
    inside = rows.filter(pl.col("time") > last - timedelta(seconds=seconds))  # type: ignore[operator]
    result = latest.windows[name]
    assert result.requests == len(inside) == len(lines_of(pool, seconds)) > 100
    for column, summary in zip(GROUP_COLUMNS, (result.response, result.queueing, result.service), strict=True):
        assert summary["mean"] == pytest.approx(inside[column].mean())
        assert summary["p99"] == pytest.approx(inside[column].quantile(0.99, "linear"))
    assert result.statuses[504] == (inside["status"] == 504).sum()
    assert result.errors == inside["status"].is_in([499, 504]).sum()
    assert result.errors or name == "now"
    assert result.rate == pytest.approx(len(inside) / seconds)


def test_window_alone_equals_its_split_where_clocks_agree(tmp_path: Path) -> None:
    records, _ = simulated_pool(replace(BUSY, skews=(0.0, 0.0), requests=2_000))
    (tmp_path / "all").write_bytes(b"".join(as_lines(records)))
    with watching(tmp_path / "all") as watcher:
        assert watcher.recent.last is not None
        view = watcher.view(Choice(), datetime.now(UTC), watcher.recent.last).windows["1m"]
    (tmp_path / "minute").write_text("\n".join(lines_of(tmp_path / "all", 60.0)) + "\n")
    alone = sojourn.split(tmp_path / "minute")
    assert view.requests == alone.requests
    assert view.response == pytest.approx(alone.response_time)
    assert view.service == pytest.approx(alone.components["service_time"])
    assert view.queueing["mean"] == pytest.approx(alone.components["queueing_delay"]["mean"], abs=2e-3)


def test_culprits_equal_blame(pool: Path, latest: View, tmp_path: Path) -> None:
    rows = sojourn.split(pool, columns=("request_id",)).rows.collect()
    last = rows["time"].max()
    requested = rows.with_columns(minute=pl.col("time") > last - timedelta(seconds=60))  # type: ignore[operator]
    expected = blame(requested.lazy(), by="route", where={"minute": True})
    result = latest.queues
    assert result is not None
    assert result.kind == "blame"
    assert result.waited == pytest.approx(expected.waited, rel=1e-6)
    assert result.accounts == pytest.approx(expected.accounts, rel=1e-6)
    values = {row["culprit"]: row["seconds"] for row in result.culprits}
    assert values == pytest.approx(
        dict(expected.culprits.filter(pl.col("seconds") > 0).select("culprit", "seconds").iter_rows())
    )
    assert sum(values.values()) + sum(result.accounts.values()) == pytest.approx(result.waited)


def test_depths_equal_those_of_the_whole_log_one_lag_ago(pool: Path, tmp_path: Path) -> None:
    """Lines logged later do not change the state at the reported instant."""
    lines = pool.read_text().splitlines(keepends=True)
    cut = float(json.loads(lines[0])["time"]) + 95.0
    (tmp_path / "log").write_text("".join(line for line in lines if float(json.loads(line)["time"]) <= cut))
    with watching(tmp_path / "log", replay=True) as watcher:
        view = watcher.view(Choice(), datetime.now(UTC)).queues
    assert view is not None
    assert view.as_of is not None
    assert view.lag > 1
    end = view.as_of.timestamp()
    rows = sojourn.split(pool).rows.filter(pl.col("queueing_delay").is_not_null()).collect()
    for row in view.backends:
        current = rows.filter(pl.col("upstream") == row["upstream"])
        arrival = current["start"].dt.epoch("us") / 1e6 + current["upload"] + current["retries"]
        left = arrival + current["queueing_delay"]
        waited = (left.clip(end - 60, end) - arrival.clip(end - 60, end)).sum()
        assert row["depth"] == pytest.approx(waited / 60, rel=0.01)
        assert row["last"] == ((arrival <= end) & (left > end)).sum()
        begun = left.clip(end - 60, end)
        worked = ((left + current["service_time"]).clip(end - 60, end) - begun).sum()
        assert row["busy"] == pytest.approx(worked / 60 / 2, rel=0.01)
        assert (row["workers"], row["source"]) == (2, "worker values")
        ended = (current["time"].dt.epoch("us") / 1e6).is_between(cut - 60, cut, closed="right").sum()
        assert row["rate"] == pytest.approx(ended / 60, abs=0.05)
    assert max(row["most"] for row in view.backends) > 3


# --- requests in memory


def test_drops_only_requests_older_than_ten_minutes(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"".join(record(EPOCH + k, worker=str(k % 3)) for k in range(0, 3_000, 2)))
    with watching(log, replay=True) as watcher:
        view = watcher.view(Choice(by="worker"), datetime.now(UTC))
        assert view.at == at(2_998)
        assert [result.requests for result in view.windows.values()] == [5, 30, 300]
        assert [result.seconds for result in view.windows.values()] == [10, 60, 600]
        assert view.windows["10m"].values == 3
        assert view.records.read == 1_500
        assert 300 <= view.in_memory <= 1_500
        assert len(view.history) == 60
        assert all(mean == pytest.approx(0, abs=0.002) for mean in view.history)


def test_drops_oldest_requests_beyond_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_module, "MOST", 100)
    monkeypatch.setattr(recent_module, "SETTLED", 20)
    recent = Recent()
    parser = Parser()
    for begin in range(0, 300, 20):
        seconds = range(begin, begin + 20)
        tables, records = parser.rows(b"".join(record(EPOCH + s, request_id=str(s)) for s in seconds))
        recent.add(tables[0], records)
        recent.forget(at(seconds[-1]))
    assert 80 <= len(recent) <= 100
    assert recent.records.read == 300
    assert recent.full is not None
    assert recent.known_since() == recent.full
    assert recent.rows(at(299), 600).collect()["time"].min() > recent.full


def test_repeated_record_counts_once(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    lines = [record(EPOCH + k, request_id=str(k)) for k in range(5)]
    (tmp_path / "log").write_bytes(b"".join([*lines, *lines]))
    with watching(tmp_path / "log", replay=True) as watcher:
        assert (len(watcher.recent), watcher.recent.duplicates) == (5, 5)
        with (tmp_path / "log").open("ab") as log:
            log.write(lines[3])
        watcher.poll()
        watcher.read(datetime.now(UTC))
        view = watcher.view(Choice(), datetime.now(UTC))
    assert view.windows["10m"].requests == 5
    assert view.notes == snapshot


def test_rejected_lines_are_counted_by_reason(tmp_path: Path) -> None:
    lines = [
        record(EPOCH),
        b"\xff\xfe garbage\n",
        b"[]\n",
        b"\n",
        record(EPOCH + 1).replace(b'"200"', b'"-"'),
        record(EPOCH + 2),
    ]
    (tmp_path / "log").write_bytes(b"".join(lines) + b'{"time":')
    with watching(tmp_path / "log", replay=True) as watcher:
        view = watcher.view(Choice(), datetime.now(UTC))
        assert view.records.reasons == {"invalid_json": 1, "not_an_object": 1, "empty_line": 1, "missing_status": 1}
        assert view.windows["10m"].requests == 2
        assert "lines refused: " in text_of(screen(view, Looks(), 120))


def test_note_names_the_format_of_a_foreign_log(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    (tmp_path / "log").write_bytes(b'192.0.2.1 - - [21/Nov/2026:18:00:00 +0000] "GET / HTTP/1.1" 200 5\n' * 7)
    with watching(tmp_path / "log") as watcher:
        view = watcher.view(Choice(), datetime.now(UTC))
    text = " ".join(text_of(screen(view, Looks(), 80, 24)).split())
    (note,) = view.notes
    assert text.count(note) == 1
    assert note == snapshot


def test_log_without_app_times_ranks_by_response_time(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    none = {"queueing_delay": "", "service_time": "", "worker": ""}
    lines = [
        record(EPOCH + k / 10, 0.0, 0.5 if k % 4 else 3.0, route="/a" if k % 4 else "/b", **none) for k in range(400)
    ]
    (tmp_path / "log").write_bytes(b"".join(lines))
    with watching(tmp_path / "log", replay=True) as watcher:
        view = watcher.view(Choice(), datetime.now(UTC))
    assert view.queues is not None
    assert view.queues.kind == "response time"
    assert [row["culprit"] for row in view.queues.culprits] == ["/b", "/a"]
    assert view.notes == snapshot
    assert view.windows["10m"].determined == 0


def test_unanswered_requests_count_by_status(tmp_path: Path) -> None:
    lines = [given_up(EPOCH + k, 60.0, status) for k, status in enumerate(6 * ["504", "499", "502", "503", "504"])]
    (tmp_path / "log").write_bytes(b"".join(lines))
    with watching(tmp_path / "log", replay=True) as watcher:
        view = watcher.view(Choice(), datetime.now(UTC))
    assert view.windows["1m"].statuses == {499: 6, 502: 6, 503: 6, 504: 12}
    assert view.windows["1m"].errors == view.windows["1m"].requests == 30
    assert view.judged is not None
    assert view.judged.cause == "unknown"
    assert "504 0.41/s" in text_of(screen(view, Looks(), 80))


def test_few_requests_allow_no_verdict(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    (tmp_path / "log").write_bytes(b"".join(record(EPOCH + k, 2.0, 0.1) for k in range(27)))
    with watching(tmp_path / "log", replay=True) as watcher:
        view = watcher.view(Choice(), datetime.now(UTC))
    assert view.judged is None
    assert view.to_dict()["verdict"] is None
    assert text_of(screen(view, Looks(), 80)).splitlines()[1] == snapshot


def test_a_filter_that_matches_nothing_says_so(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    (tmp_path / "log").write_bytes(b"".join(record(EPOCH + k, 0.2, 0.1) for k in range(100)))
    with watching(tmp_path / "log", replay=True) as watcher:
        view = watcher.view(Choice(where="/nowhere"), datetime.now(UTC))
    assert view.windows["10m"].requests == 0
    assert text_of(screen(view, Looks(), 80)).splitlines()[1] == snapshot


def test_culprits_and_their_share_of_the_waiting_are_beside_each_group(latest: View) -> None:
    assert latest.queues is not None
    top = latest.queues.culprits[0]
    text = text_of(screen(latest, Looks(), 140))
    (line,) = (line for line in text.splitlines() if line.startswith(f"{top['culprit']} "))
    share = percent(top["share"])
    assert " ".join(line.rsplit(maxsplit=4)[1:3]) == share
    assert f"aused by {top['culprit']} {share}" in " ".join(text.split())


def test_empty_log(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"")
    with watching(tmp_path / "log") as watcher:
        view = watcher.view(Choice(), datetime.now(UTC))
    json.dumps(sojourn.model.formatting.rounded(view.to_dict()))
    text = text_of(screen(view, Looks(), 80))
    assert "no record yet" in text
    assert "No request ended" in text


def test_filter_selects_requests(tmp_path: Path) -> None:
    lines = [record(EPOCH + k, route="/Big" if k % 2 else "/a") for k in range(10)]
    lines = [line.replace(b"10.0.0.1", b"10.0.0.2") if k > 5 else line for k, line in enumerate(lines)]
    lines[0] = lines[0].replace(b'"200"', b'"503"')
    (tmp_path / "log").write_bytes(b"".join(lines))
    expected = {"/big": 5, "route=/Big": 5, "route=/big": 0, "10.0.0.2": 4, "status=503": 1, "uri=/": 0, "": 10}
    with watching(tmp_path / "log", replay=True) as watcher:
        for where, count in expected.items():
            assert watcher.view(Choice(where=where), datetime.now(UTC)).windows["10m"].requests == count, where


# --- time


def test_log_time_is_local_time_unless_lines_are_late() -> None:
    clock = LogClock()
    assert clock.now(at(100)) == at(100)
    clock.observe(at(99), at(100))
    assert clock.now(at(130)) == at(130)
    late = LogClock()
    for second in range(100):  # half an hour late, and bursts a little later
        late.observe(at(second - 1_800 - second % 7), at(second))
    assert late.late == pytest.approx(1_800)
    assert late.now(at(200)) == at(-1_600)
    ahead = LogClock()
    ahead.observe(at(400), at(100))
    assert ahead.now(at(101)) == at(401)


def test_replay_stops_at_its_end() -> None:
    clock = LogClock(replay=True)
    clock.observe(at(50), at(1e6))
    assert clock.now(at(1e6 + 500)) == at(50)


def test_expensive_values_are_computed_less_often() -> None:
    items = []
    paced = Paced(lambda: items.append(sum(range(2_000_000))), share=0.001)
    for _ in range(5):
        paced.get()
    assert len(items) == 2  # the first time does not count: most of it is loading
    paced.outdated()
    paced.get()
    assert len(items) == 3
    cheap = Paced(lambda: items.append(1), share=1e6)
    for _ in range(3):
        cheap.get()
    assert items[3:] == [1, 1, 1]


def test_computation_that_takes_long_once_does_not_delay_the_next() -> None:
    sizes = iter([1, 20_000_000, 1, 1, 1])
    items = []
    paced = Paced(lambda: items.append(sum(range(next(sizes)))), share=0.001)
    deadline = time.monotonic() + 60.0  # at its pace the long one would delay the next by more
    while len(items) < 4 and time.monotonic() < deadline:
        paced.get()
    assert len(items) == 4


# --- the screen


@pytest.mark.parametrize("size", [(200, 60), (120, 40), (80, 24), (60, 15), (40, 10), (20, 4), (3, 2), (1, 1)])
@pytest.mark.parametrize("window", list(WINDOWS))
def test_screen_fits_every_size(latest: View, size: tuple[int, int], window: str) -> None:
    width, height = size
    for looks in (Looks(window=window), Looks(window=window, ascii_only=True)):
        lines = screen(latest, looks, width, height)
        assert len(lines) <= height
        text = text_of(lines)
        assert all(len(line) <= width for line in text.splitlines())
        assert text.isascii() or not looks.ascii_only
    if width >= 40 and height >= 10:
        text = text_of(screen(latest, Looks(window=window), width, height - 1))  # the last line is the keys'
        assert "10 min" in text
        assert "504" in text
        assert "/export" in text or "/product" in text


def test_screen_of_eighty_columns_shows_the_figures(latest: View) -> None:
    text = text_of(screen(latest, Looks(), 80, 24))
    assert latest.judged is not None
    assert latest.judged.sentence.split(":")[0] in text
    minute = latest.windows["1m"]
    row = next(line for line in text.splitlines() if line.startswith("1 min "))
    assert row.split()[2:5] == [
        f"{minute.rate:.1f}",
        *(
            f"{minute.response[p] * 1000:,.0f}" if minute.response[p] > 0.1 else f"{minute.response[p] * 1000:.1f}"
            for p in ("p50", "p99")
        ),
    ]  # type: ignore[operator]
    assert "10.0.0.1:8080" in text
    assert latest.queues is not None
    assert "otal wait" in text


def test_headings_at_80_columns(latest: View) -> None:
    lines = text_of(screen(latest, Looks(), 80, 30)).splitlines()
    assert [line.split() for line in lines if "response ms" in line or "min errors" in line] == [
        ["response", "ms", "queueing", "ms", "serv.", "queued", "caused"],
        ["req/s", "p50", "p99", "mean", "p99", "mean", "share", "1", "min", "errors"],
    ]
    assert latest.queues is not None
    title = lines.index(f"backends, 1 min; workers and queue as of {duration(latest.queues.lag)} ago, the log's lag")
    above, heads, first = lines[title + 1 : title + 4]
    assert above.split() == ["queueing", "ms", "workers", "in", "queue"]
    assert heads.split() == ["req/s", "mean", "p99", "busy", "count", "mean", "most", "last"]
    # Figures are aligned with their headings.
    assert len(heads.rstrip()) == len(first.rstrip())
    assert not any(" -0" in line or "backends -" in line for line in lines)


@pytest.mark.parametrize(("lag", "text"), [(-0.1, "0 ms"), (0.01, "10.0 ms"), (3.6, "3.6 s")])
def test_lag_is_shown_and_negative_rounding_is_zero(latest: View, lag: float, text: str) -> None:
    assert latest.queues is not None
    behind = replace(latest, queues=replace(latest.queues, lag=lag))
    assert f"as of {text} ago" in text_of(screen(behind, Looks(), 80, 30))


def test_backends_on_long_sockets_are_distinguishable(latest: View) -> None:
    assert latest.queues is not None
    sockets = [f"unix:/run/applications/production/checkout/instances/gunicorn-{k}.sock" for k in (1, 2)]
    rows = [{**latest.queues.backends[0], "upstream": socket} for socket in sockets]
    text = text_of(screen(replace(latest, queues=replace(latest.queues, backends=rows)), Looks(), 80, 30))
    assert "-1.sock " in text
    assert "-2.sock " in text


@pytest.mark.parametrize("sort", SORTS)
def test_every_column_sorts(latest: View, sort: str) -> None:
    rows = [{**row, "caused": n % 3 / 3} for n, row in enumerate(latest.windows["10m"].groups)]
    order = [row["value"] for row in sorted_rows(rows, sort, 600)]
    expected: dict[str, Any] = {
        "seconds": lambda row: row["seconds"], "rate": lambda row: row["requests"],
        "p50": lambda row: row["response_time"]["p50"], "p99": lambda row: row["response_time"]["p99"],
        "queueing": lambda row: row["queueing_delay"]["mean"], "queueing99": lambda row: row["queueing_delay"]["p99"],
        "service": lambda row: row["service_time"]["mean"], "service99": lambda row: row["service_time"]["p99"],
        "share": lambda row: row["queueing_share"], "caused": lambda row: row["caused"],
        "errors": lambda row: row["errors"] / row["requests"],
    }  # fmt: skip
    assert order == [row["value"] for row in sorted(rows, key=expected[sort], reverse=True)]


def test_hostile_names_are_escaped(tmp_path: Path) -> None:
    evil = "\x1b[2J\x07\u202e/" + "漢" * 30
    (tmp_path / "log").write_bytes(b"".join(record(EPOCH + k, route=evil, upstream_addr="a\x1bb") for k in range(30)))
    with watching(tmp_path / "log", replay=True) as watcher:
        view = watcher.view(Choice(where="/"), datetime.now(UTC))
    for looks in (Looks(), Looks(ascii_only=True)):
        text = text_of(screen(view, looks, 80, 24))
        assert text.isprintable() or all(c.isprintable() or c == "\n" for c in text)
        assert "\\x1b[2J" in text


def test_names_have_exact_width() -> None:
    assert name_cell("/a", 5) == "/a   "
    assert name_cell("/abcdefgh", 5) == "/a…gh"
    assert name_cell("漢字漢字", 5) == "漢…字"
    assert name_cell(None, 3) == "–  "


def test_sparkline_is_scaled_from_zero_to_the_largest() -> None:
    assert sparkline((0.0, 1.0, None, 0.5), 10, ascii_only=False) == "▁█ ▅"
    assert sparkline((0.0, 1.0, None, 0.5), 10, ascii_only=True) == ".@ +"
    assert sparkline((0.0, 1.0, None, 0.5), 2, ascii_only=True) == "@+"
    assert sparkline((None, 0.0), 2, ascii_only=True) == " ."


def test_pool_and_watch_share_an_epoch() -> None:
    assert POOL_EPOCH == EPOCH

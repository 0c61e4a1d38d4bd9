"""Contrast of logs, frames and stores: selections, culprits against blame, refusals, hostile values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import sojourn
from fifo_requests import EPOCH, FifoRequests, fifo_requests
from sojourn import SojournError
from sojourn.analyses.contrast.analysis import ContrastResult
from sojourn.analyses.contrast.section import contrast_section
from sojourn.cli import app
from sojourn.model.redaction import SWITCH
from sojourn.present.drawing import specification
from sojourn.store.load import load
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner

EXAMPLES = Path(__file__).parents[4] / "docs/examples"
SHOP, SPANS = str(EXAMPLES / "shop.jsonl.gz"), str(EXAMPLES / "shop-spans.jsonl.gz")
HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e"


@pytest.fixture(scope="module")
def shop() -> sojourn.SplitResult:
    return sojourn.split(SHOP, spans=SPANS, columns=("request_id", "tenant", "method", "uri", "host", "remote_addr"))


@pytest.fixture(scope="module")
def queue() -> FifoRequests:
    return fifo_requests(5)


@pytest.fixture(scope="module")
def slow(queue: FifoRequests) -> ContrastResult:
    return sojourn.contrast(queue.rows, column="tenant", above=queue.response_quantile(0.8))


def run(*arguments: str) -> Any:
    return CliRunner(env={"COLUMNS": "120"}).invoke(app, ["contrast", *arguments])


# --- the selection


def test_parts_are_those_of_the_frame(queue: FifoRequests, slow: ContrastResult) -> None:
    chosen = queue.rows["request_time"] >= queue.response_quantile(0.8)
    for part, members in ((slow.selected, chosen), (slow.rest, ~chosen)):
        assert part.requests == members.sum()
        assert part.share == pytest.approx(members.mean())
        times = queue.rows.filter(members)["request_time"]
        assert part.times["response_time"] == pytest.approx(
            {"mean": times.mean(), "p50": times.median(), "p99": times.quantile(0.99, "linear")}
        )


def test_limits_include_their_begin_and_exclude_their_end(queue: FifoRequests) -> None:
    starts, times = queue.rows["start"].sort(), queue.rows["request_time"].sort()
    by_arrival = sojourn.contrast(queue.rows, begin=starts[1_000], end=starts[2_000])
    assert by_arrival.selected.requests == 1_000
    low, high = float(times[1_000]), float(times[2_000])
    by_time = sojourn.contrast(queue.rows, above=low, below=high)
    assert by_time.selected.requests == ((times >= low) & (times < high)).sum()
    both = sojourn.contrast(queue.rows, begin=starts[1_000], above=low)
    at = (queue.rows["start"] >= starts[1_000]) & (queue.rows["request_time"] >= low)
    assert both.selected.requests == at.sum()


def test_values_of_one_column_are_alternatives_and_of_two_columns_conditions(queue: FifoRequests) -> None:
    rows = queue.rows
    tenants = ["acme", "globex"]
    either = sojourn.contrast(rows, column="tenant", select={"tenant": tenants})
    assert either.selected.requests == rows["tenant"].is_in(tenants).sum()
    both = sojourn.contrast(rows, column="tenant", select={"tenant": tenants, "host": "a.example", "status": 200})
    assert both.selected.requests == (rows["tenant"].is_in(tenants) & (rows["host"] == "a.example")).sum()
    assert {"tenant", "host"}.isdisjoint(both.ranking.columns)
    assert {"tenant", "host"} <= set(both.culprit_ranking.columns)


def test_time_of_the_limits_can_be_another_one(queue: FifoRequests) -> None:
    waits = queue.rows["app_queueing_delay"]
    limit = float(np.quantile(waits, 0.9))
    result = sojourn.contrast(queue.rows, of="queueing_delay", above=limit)
    assert result.selected.requests == pytest.approx((waits >= limit).sum(), abs=2)
    assert result.selected.times["queueing_delay"]["mean"] > 5 * result.rest.times["queueing_delay"]["mean"]  # type: ignore[operator]


def test_without_a_selection_the_slow_requests_of_the_incident_are_selected(shop: sojourn.SplitResult) -> None:
    incident = shop.audit.incident
    assert incident is not None
    result = sojourn.contrast(shop)
    assert result.selection.incident
    assert (result.selection.begin, result.selection.end) == (incident.begin, incident.end)
    inside = pl.col("start").is_between(incident.begin, incident.end, closed="left")
    usual = shop.rows.filter(~inside).select(pl.col("request_time").quantile(0.9, "linear")).collect().item()
    assert result.selection.above == usual
    expected = shop.rows.filter(inside & (pl.col("request_time") >= usual)).collect()
    assert result.selected.requests == len(expected)
    assert result.notes[0].startswith("Nothing was selected")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "nothing is selected, and the log has no incident"),
        ({"above": 1e6}, "no request is selected: of 3,000 requests, none"),
        ({"select": {"host": "z"}}, "no request is selected"),
        ({"above": 0.0}, "3,000 requests are selected, and there is no rest"),
        ({"begin": EPOCH + 50, "end": EPOCH + 40}, "not before the end"),
        ({"above": 2.0, "below": 1.0}, "not less than below"),
        ({"above": "slow"}, "not a number of seconds"),
        ({"above": float("nan")}, "not a number of seconds"),
        ({"begin": "yesterday"}, "is not an instant"),
        ({"begin": "2026-01-01T00:00:00"}, "no time zone"),
        ({"of": "size", "above": 1.0}, "of: 'size' is not one of response_time"),
        ({"above": 0.1, "column": "tennant"}, "did you mean 'tenant'"),
        ({"select": {"tennant": "a"}}, "did you mean 'tenant'"),
        ({"select": {"tenant": []}}, "no value of tenant"),
        ({"above": 0.1, "where": {"status": 500}}, "no request to compare"),
    ],
)
def test_refusals_say_what_and_what_to_do(queue: FifoRequests, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SojournError, match=sentence):
        sojourn.contrast(queue.rows, **options)


def test_one_request_is_refused_and_two_rank_nothing(queue: FifoRequests) -> None:
    with pytest.raises(SojournError, match="1 request is selected"):
        sojourn.contrast(queue.rows.head(1), above=0.0)
    two = sojourn.contrast(queue.rows.head(2).with_columns(request_time=pl.Series([0.1, 5.0])), above=1.0)
    assert two.differences.is_empty()
    assert two.culprits.is_empty()
    assert contrast_section(two).sentence


def test_conditions_limit_what_is_compared_and_not_what_holds_workers(queue: FifoRequests) -> None:
    above = queue.response_quantile(0.7)
    result = sojourn.contrast(queue.rows, column="tenant", above=above, where={"host": "a.example"})
    assert result.selected.requests + result.rest.requests == (queue.rows["host"] == "a.example").sum()
    assert "host" not in result.ranking.columns
    assert "host" in result.culprit_ranking.columns
    waits = result.waits
    assert waits is not None
    assert waits.requests == result.selected.requests
    half = sojourn.contrast(queue.rows, above=above, since=queue.at(0.5))
    assert half.selected.requests + half.rest.requests == (queue.start >= queue.start[-1] / 2).sum()


# --- culprits


@pytest.mark.parametrize("by", ["route", "tenant", "upstream"])
def test_culprits_seconds_are_those_of_blame(shop: sojourn.SplitResult, by: str) -> None:
    victims: dict[str, Any] = {"route": "/product"}
    blame = sojourn.blame(shop, by=by, where=victims)
    result = sojourn.contrast(shop, column="tenant", select=victims)
    waits = result.waits
    assert waits is not None
    assert (waits.waited, waits.blamed) == pytest.approx((blame.waited, blame.blamed))
    assert waits.accounts == pytest.approx(blame.accounts)
    assert waits.unknown == pytest.approx(blame.unknown)
    assert waits.waited == pytest.approx(waits.blamed + sum(waits.accounts.values()))
    expected = dict(blame.culprits.select("culprit", "seconds").iter_rows())
    of_column = result.culprits.filter(column=by)
    assert by != "route" or of_column["value"].to_list() == ["/export"]
    for row in of_column.iter_rows(named=True):
        assert row["seconds"] == pytest.approx(expected[row["value"]])
        assert row["share"] == pytest.approx(row["seconds"] / (waits.blamed - waits.unknown))


def test_queue_that_is_not_in_the_log_has_no_culprits_and_a_reason(queue: FifoRequests) -> None:
    plain = queue.rows.drop("app_queueing_delay", "app_service_time", "request_start", "proxy_start", "header").head(
        300
    )
    result = sojourn.contrast(plain, above=queue.response_quantile(0.8))
    assert result.waits is None
    assert result.culprits.is_empty()
    assert result.culprits_unknown.startswith("The culprits are unknown.")
    assert result.ranking.values > 0
    assert result.to_dict()["culprits_unknown"] == result.culprits_unknown
    assert result.culprits_unknown in contrast_section(result).sentence


def test_inferred_waits_are_marked() -> None:
    result = sojourn.contrast(str(EXAMPLES / "plain.log.gz"), above=0.3)
    assert result.waits is not None
    assert set(result.waits.queue_source.requests) & {"inferred"}
    assert any("inferred" in note for note in result.notes)


def test_part_of_the_rows_has_no_culprits(shop: sojourn.SplitResult) -> None:
    part = shop.rows.filter(pl.col("tenant") == "acme")
    result = sojourn.contrast(part, above=1.0)
    assert result.culprits.is_empty()
    assert "of its log" in result.culprits_unknown


def test_idle_workers_have_no_culprits() -> None:
    idle = fifo_requests(1, count=1_000, workers=8, load=0.02)
    result = sojourn.contrast(idle.rows, above=idle.response_quantile(0.8))
    assert result.culprits.is_empty()
    assert "hardly waited" in result.culprits_unknown


def test_one_request_that_holds_all_workers_is_a_note_and_no_culprit() -> None:
    """One request of a minute at one worker: one event, whatever its columns are."""
    count = 400
    start = np.cumsum(np.full(count, 0.1))
    service = np.full(count, 0.01)
    service[100] = 10.0
    begin = np.empty(count)
    free = 0.0
    for number in range(count):
        begin[number] = max(free, start[number])
        free = begin[number] + service[number]
    rows = fifo_requests(1, count=count, workers=1).rows.with_columns(
        *(
            pl.Series(name, np.round((start + EPOCH + offset) * 1e6).astype(np.int64)).cast(pl.Datetime("us", "UTC"))
            for name, offset in (
                ("time", begin + service - start),
                ("start", 0),
                ("request_start", 0),
                ("proxy_start", 0),
            )
        ),
        *(pl.Series(name, begin + service - start) for name in ("request_time", "header", "response")),
        app_queueing_delay=pl.Series(begin - start),
        app_service_time=pl.Series(service),
        tenant=pl.Series(np.where(np.arange(count) % 100 == 0, "acme", "globex")),
    )
    result = sojourn.contrast(rows, column="tenant", above=1.0, workers=1)
    waits = result.waits
    assert waits is not None
    assert waits.costliest > 0.5 * waits.blamed
    assert result.culprits.is_empty()
    assert any("One request alone" in note for note in result.notes)


# --- columns and values


def test_missing_values_are_a_value_and_columns_without_any_are_left_out(queue: FifoRequests) -> None:
    above = queue.response_quantile(0.9)
    absent = pl.when(pl.col("request_time") < above).then("tenant")
    rows = queue.rows.with_columns(tenant=absent, protocol=pl.lit(None, pl.String)).drop("host")
    result = sojourn.contrast(rows, column="tenant", above=above)
    row = result.differences.row(0, named=True)
    assert (row["column"], row["value"], row["selected"], row["rest"]) == ("tenant", None, 1.0, 0.0)
    assert row["lift"] is None
    assert {"protocol", "host"}.isdisjoint(result.ranking.columns)
    assert "tenant –" in contrast_section(result).sentence
    json.dumps(result.to_dict())


def test_ids_instants_and_lists_are_not_compared(shop: sojourn.SplitResult) -> None:
    result = sojourn.contrast(shop, column="tenant", above=1.0)
    every = {*result.ranking.columns, *result.ranking.few, *result.runs}
    assert every <= {*shop.rows.collect_schema()}
    assert every.isdisjoint({"request_id", "trace_id", "span_id", "connection", "upstream_addr", "start", "queue"})
    assert {"route", "upstream", "tenant"} <= every


def test_queries_of_uris_are_shown_only_without_redaction(queue: FifoRequests, monkeypatch: pytest.MonkeyPatch) -> None:
    above = queue.response_quantile(0.9)
    uri = pl.when(pl.col("request_time") >= above).then(pl.lit("/login?token=1")).otherwise(pl.lit("/"))
    rows = queue.rows.with_columns(uri=uri)
    for switch, value in (("on", "/login"), ("off", "/login?token=1")):
        monkeypatch.setenv(SWITCH, switch)
        assert value in sojourn.contrast(rows, above=above).differences.filter(column="uri")["value"].to_list()


def test_values_from_a_log_are_text(queue: FifoRequests, tmp_path: Path) -> None:
    above = queue.response_quantile(0.9)
    hostile = pl.when(pl.col("request_time") >= above).then(pl.lit(HOSTILE)).otherwise("tenant")
    path = tmp_path / "a.parquet"
    queue.rows.with_columns(tenant=hostile).write_parquet(path)
    result = sojourn.contrast(str(path), column="tenant", above=above)
    assert result.differences["value"][0] == HOSTILE
    assert "<script>" not in result._repr_html_()
    printed = run(
        str(path),
        "--column",
        "tenant",
        "--above",
        str(above),
        "--select",
        f"tenant={HOSTILE}",
        "--select",
        "tenant=acme",
    )
    assert printed.exit_code == 0
    assert "\x1b" not in printed.output
    assert "\u202e" not in printed.output
    refused = run(str(path), "--column", "tenant", "--select", f"tenant={HOSTILE}x")
    assert refused.exit_code == 1
    assert "\x1b" not in refused.output


# --- sources, the command and the JSON


def test_store_answers_as_its_file(store_dsn: str) -> None:
    load(store_dsn, [SHOP])
    options: dict[str, Any] = {"above": 1.0, "begin": "2026-01-01T00:00:30Z"}
    of_file, of_store = sojourn.contrast(SHOP, **options), sojourn.contrast(store_dsn, **options)
    assert of_store.selected.requests == of_file.selected.requests
    # The addresses of a store are networks: the columns of the file with more values share the same error.
    shares = ("column", "value", "selected", "rest", "requests")
    assert of_file.differences.select(shares).rows() == of_store.differences.select(shares).rows()
    assert not of_store.differences.is_empty()
    assert of_store.waits is not None
    assert of_file.waits is not None
    assert of_store.waits.blamed == pytest.approx(of_file.waits.blamed, rel=1e-3)


def test_frames_and_splits_answer_as_their_file(shop: sojourn.SplitResult) -> None:
    options: dict[str, Any] = {"above": 1.0, "column": "tenant"}
    expected = sojourn.contrast(SHOP, spans=SPANS, **options)
    for requests in (shop, shop.rows.collect()):
        result = sojourn.contrast(requests, **options)
        assert result.culprits.equals(expected.culprits)
        assert result.differences.filter(column="route").equals(expected.differences.filter(column="route"))


def test_command_prints_the_result_of_the_function(shop: sojourn.SplitResult) -> None:
    limits = ("--begin", "2026-01-01T00:01:00Z", "--end", "1767225690", "--above", "0.5", "--below", "9")
    done = run(SHOP, "--spans", SPANS, "--column", "tenant", *limits, "--of", "queueing_delay", "--json")
    assert done.exit_code == 0, done.output
    result = sojourn.contrast(
        shop, column="tenant", begin="2026-01-01T00:01:00Z", end=1767225690.0, above=0.5, below=9, of="queueing_delay"
    )
    values = json.loads(done.stdout)
    assert values["selection"] == result.to_dict()["selection"]
    assert values["selected"]["requests"] == result.selected.requests
    assert [row["value"] for row in values["culprits"]] == result.culprits["value"].to_list()
    selected = json.loads(run(SHOP, "--select", "tenant=acme", "--select", "tenant=globex", "--json").stdout)
    assert selected["selection"]["select"] == {"tenant": ["acme", "globex"]}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--of", "size"), 2),
        (("--begin", "noon"), 2),
        (("--select", "tenant"), 2),
        (("--select", "status=ok"), 2),
        (("--column", "no column"), 2),
        (("--above", "100"), 1),
        (("--above", "0"), 1),
        (("--begin", "2026-01-01T01:00:00Z", "--end", "2026-01-01T00:00:00Z"), 1),
    ],
)
def test_command_refuses(arguments: tuple[str, ...], code: int) -> None:
    done = run(SHOP, *arguments)
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output


def test_json(shop: sojourn.SplitResult, snapshot: SnapshotAssertion) -> None:
    assert sojourn.contrast(shop, column="tenant").to_dict() == snapshot


def test_section(shop: sojourn.SplitResult, snapshot: SnapshotAssertion) -> None:
    section = contrast_section(sojourn.contrast(shop, column="tenant"))
    assert section.sentence == snapshot
    assert [table.headings[0] for table in section.tables] == [
        "ms",
        "column",
        "column",
        "waits of the selected requests",
    ]
    for picture in section.pictures:
        marks = {layer["mark"]["type"] for layer in specification(picture.chart(), "light")["layer"]}
        assert marks == {"bar", "rule", "tick"}


def test_selection_without_a_difference_is_a_sentence(snapshot: SnapshotAssertion) -> None:
    requests = fifo_requests(2, factor=1.0)
    assert contrast_section(sojourn.contrast(requests.rows, above=requests.response_quantile(0.9))).sentence == snapshot


def test_tables_of_the_result_are_frames(slow: ContrastResult) -> None:
    assert slow.to_polars().equals(slow.differences)
    assert slow.to_polars("culprits").equals(slow.culprits)

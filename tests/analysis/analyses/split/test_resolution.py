"""Figures below the resolution of the clocks: the printed outputs leave them out, the JSON has them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
import sojourn
from analysis_support import BASE, line, split_of_log
from sojourn.analyses.split.page import split_part
from sojourn.analyses.split.readings import by_group
from sojourn.analyses.split.table import audit_sentence
from sojourn.cli import app
from sojourn.present.page import Page
from sojourn.present.section import Section
from sojourn.report.short import in_short
from sojourn.watch.cells import COLUMNS, row_of
from sojourn.watch.figures import figures
from typer.testing import CliRunner


@pytest.fixture
def result(tmp_path: Path) -> sojourn.SplitResult:
    """Return a split in which the network takes less than 0 ms, and 5 ms in a few requests."""
    lines = [
        line(
            time=f"{BASE + number}.100", request_start=f"{BASE + number}.000", upstream_addr="10.0.0.1:80",
            upstream_status="200", upstream_connect_time="0.000", upstream_header_time="0.100",
            upstream_response_time="0.100", queueing_delay="0.0507", worker="1",
            service_time="0.0448" if number % 100 == 0 else "0.0500", uri=f"/{number % 2}",
        )
        for number in range(300)
    ]  # fmt: skip
    return split_of_log(tmp_path, b"".join(lines))


def cells_of(text: str, name: str) -> list[str]:
    return next(line.split() for line in text.splitlines() if line.startswith(name))


def test_negative_component_within_the_uncertainty_is_zero(result: sojourn.SplitResult, tmp_path: Path) -> None:
    network = result.components["network"]["mean"]
    assert network is not None
    assert -result.uncertainty < network < 0
    assert result.to_dict()["components"]["network"]["mean"] == pytest.approx(network, abs=1e-9)
    printed = CliRunner().invoke(app, ["split", str(tmp_path / "a.jsonl")], env={"COLUMNS": "100"}).stdout
    assert cells_of(printed, "network")[1:5] == ["0", "%", "0", "0"]
    page = Page(split=split_part(result)).text()
    row = page[page.index('<tr class="network">') :].partition("</tr>")[0]
    assert "<td>0 %</td><td>0</td><td>0</td>" in row


def test_remainder_within_the_uncertainty_is_no_part_of_the_summary(result: sojourn.SplitResult) -> None:
    assert [part.colour for part in split_part(result).parts] == ["queueing", "service"]
    assert " elsewhere" not in in_short(result, [Section("blame", "Who", "")])[0].text
    slower = replace(result, means={**result.means, "network": 0.01})
    assert [part.colour for part in split_part(slower).parts] == ["queueing", "service", "other"]
    assert " elsewhere" in in_short(slower, [Section("blame", "Who", "")])[0].text


def test_negative_component_beyond_the_uncertainty_is_shown(result: sojourn.SplitResult) -> None:
    network = {**result.components["network"], "mean": -0.1}
    page = Page(split=split_part(replace(result, components={**result.components, "network": network}))).text()
    row = page[page.index('<tr class="network">') :].partition("</tr>")[0]
    assert "<td>-100</td>" in row


def test_identity_is_mentioned_where_it_does_not_close(result: sojourn.SplitResult) -> None:
    assert 0 <= result.to_dict()["audit"]["identity_max_error"] < 1e-6
    closed = audit_sentence(result)
    result.audit.identity_max_error = 0.002
    assert audit_sentence(result) == closed.replace(
        "Audit: ", "Audit: the components miss the response time by up to 2.00 ms; "
    )


def test_fastest_value_is_one_that_took_time() -> None:
    rows = [("/slow", 0.2), ("/fast", 0.01), ("/redirect", 0.0002)]
    table = pl.DataFrame([{"group": group, "part": "service time", "seconds": seconds} for group, seconds in rows])
    assert by_group(table, "route").endswith("; /fast was fastest with 10.0 ms.")
    assert "fastest" not in by_group(table.filter(pl.col("group") != "/fast"), "route")


def test_watch_shows_no_negative_delay_within_the_resolution(result: sojourn.SplitResult) -> None:
    rows = result.rows.with_columns(queueing_delay=pl.lit(-0.0004), queue=pl.lit(-0.0004), connect=pl.lit(0.0))
    row = row_of(figures(rows, 300.0, "route"))
    cells = {column.key: column.text(column.value(row, 300.0)) for column in COLUMNS}
    assert (row["queueing_delay"]["mean"], row["queueing_share"]) < (0.0, 0.0)
    assert (cells["queueing"], cells["queueing99"], cells["share"]) == ("0", "0", "0 %")

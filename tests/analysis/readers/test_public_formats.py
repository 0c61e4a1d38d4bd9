"""Every format that logs in public have is read with the truth, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
import sojourn
from public_formats import READ, REFUSED, Public, requests, text_of

CERTAINTIES = ("sure", "likely", "assumed")
TOLERANCE = 0.01


@pytest.mark.parametrize("public", READ.values(), ids=READ)
def test_figures_are_those_of_the_truth(tmp_path: Path, public: Public) -> None:
    path = tmp_path / "access.log"
    path.write_text(text_of(public.line, public.head))
    columns = ("request_time", "header", "response", "app_service_time", "status", "time", "vantage")
    read = sojourn.read(path, columns=columns)
    rows, truth = read.rows.collect(), requests()
    (facts,) = read.records.formats
    assert read.records.rejected == public.head.count("\n")
    assert len(rows) == len(truth)
    assert CERTAINTIES.index(facts.certainty) <= CERTAINTIES.index(public.certainty)
    whole = sum(each.whole for each in truth) / len(truth)
    assert rows["request_time"].mean() == pytest.approx(whole, rel=TOLERANCE)
    assert rows["status"].sum() == sum(each.status for each in truth)
    assert rows["time"].max().timestamp() == pytest.approx(truth[-1].end, abs=2.0)
    assert facts.vantage == ("app" if public.app else "proxy" if public.upstream else "whole")
    if public.upstream:
        upstream = sum(each.upstream for each in truth) / len(truth)
        assert rows.select("header").mean().item() == pytest.approx(upstream, rel=TOLERANCE)
    if public.app:
        assert rows["app_service_time"].mean() == pytest.approx(whole, rel=TOLERANCE)


@pytest.mark.parametrize("line", REFUSED.values(), ids=REFUSED)
def test_numbers_that_are_no_durations_are_not_read_as_such(tmp_path: Path, line: object) -> None:
    path = tmp_path / "access.log"
    path.write_text(text_of(line))  # type: ignore[arg-type]
    assert sojourn.read(path).records.reasons == {"missing_request_time": len(requests())}

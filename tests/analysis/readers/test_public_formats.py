"""Every format that logs in public have is read with the truth, or not at all."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import sojourn
from public_formats import READ, REFUSED, Public, requests, text_of
from sojourn.model.errors import SojournError
from sojourn.readers.formats import nginx
from sojourn.readers.formats.catalogue import FORMATS, format_by_name
from sojourn.readers.formats.fields import FIELDS, TEXTS
from wide_tables import one_of

CERTAINTIES = ("sure", "likely", "assumed")
TOLERANCE = 0.01


@pytest.mark.parametrize("public", one_of(2, READ.values()), ids=[*READ])
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


@pytest.mark.parametrize("name", ["IIS", "CloudFront"])
def test_a_line_of_fields_is_a_format(tmp_path: Path, name: str) -> None:
    public = READ[name]
    path = tmp_path / "access.log"
    path.write_text(text_of(public.line))
    fields = next(line for line in public.head.splitlines() if line.startswith("#Fields:"))
    rows = sojourn.read(sojourn.log_file(path, fields), columns=("request_time",)).rows.collect()
    truth = requests()
    assert rows["request_time"].mean() == pytest.approx(sum(each.whole for each in truth) / len(truth), rel=TOLERANCE)


def test_a_line_of_fields_without_a_duration_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SojournError, match=r"request_time \(time-taken\)"):
        sojourn.log_file(tmp_path / "access.log", "#Fields: date time cs-method cs-uri-stem sc-status")


NAMES = sorted({
    *FIELDS, *TEXTS, *nginx.FIELDS, *(name.upper() for name in list(FIELDS)[:8]),
    *(path.split(".")[0] for name in FORMATS for path in format_by_name(name).paths),
    "statusCode", "http_status", "response_time_ms", "took", "@timestamp",
    "ts", "time", "level", "msg", "a.b", 'a"b', "a'b", "ü", "select", "line", "number", "reason", "raw", "f", "r", "",
})  # fmt: skip
VALUES = (
    200, 0, -1, 0.25, 1e-7, 12345678901234567890, "0.125", "-", "", None, True, [], [1, 2], {}, {"status": 200},
    "0.1, 0.2", "0.1 : 0.2", "1769860800.5", 1769860800, "2026-01-31T12:00:00Z", "GET / HTTP/1.1", "10.0.0.1:80",
    "x'y\"z",
)  # fmt: skip


@pytest.mark.parametrize("seed", one_of(3, range(12)))
def test_no_combination_of_keys_is_a_fault(tmp_path: Path, seed: int) -> None:
    """Of lines of any keys each is a request, or refused with a reason; the names include those of our own columns."""
    draws = random.Random(seed)
    for number in range(8):
        keys = draws.sample(NAMES, draws.randint(2, 14))
        keys += draws.sample(("status", "request_time", "time", "msec", "upstream_response_time"), draws.randint(0, 4))
        lines = [json.dumps({key: draws.choice(VALUES) for key in keys}) for _ in range(6)]
        path = tmp_path / f"{number}.jsonl"
        path.write_text("\n".join(lines) + "\n")
        records = sojourn.read(path).records
        assert records.read == len(lines), keys
        assert records.accepted + records.rejected == len(lines), keys

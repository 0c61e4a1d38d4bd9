"""The join of an app log to the proxy's requests: what a duration says of the queue, and when it says nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import sojourn
from sojourn.analyses.split.result import SplitResult
from sojourn.components.app_log import AppLogMatch

BEGIN_S = 1_767_225_600.0
FORMAT = (
    "$msec $status $request_time $upstream_addr $upstream_connect_time $upstream_header_time $upstream_response_time "
    "$request_id"
)
TO_END, TO_HEADERS = "%(t)s %(D)s %({x-request-id}i)s %(p)s", ":response-time :req[x-request-id] :pid"


def request(number: int, header: float | None, response: float | None = None, **changes: Any) -> str:
    """A line of nginx: connected in a millisecond, one request a second."""
    response = header if response is None else response
    values = {
        "status": 504 if header is None else 200, "address": "10.0.0.1:80", "connect": "0.001", "id": f"r{number}",
        "header": "-" if header is None else f"{header:.3f}", "response": f"{response:.3f}", **changes,
    }  # fmt: skip
    return (
        f"{BEGIN_S + number + response:.3f} {values['status']} {response:.3f} {values['address']} "
        f"{values['connect']} {values['header']} {values['response']} {values['id']}\n"
    )


def line(number: int | str, seconds: float, *, at: int = 0, form: str = TO_END) -> str:
    """A line of the app log; ``at``: the second of its end."""
    name = number if isinstance(number, str) else f"r{number}"
    if form == TO_HEADERS:
        return f"{seconds * 1e3:.3f} {name} 17\n"
    return f"[01/Jan/2026:00:{at // 60:02}:{at % 60:02} +0000] {round(seconds * 1e6)} {name} <17>\n"


def split_of(folder: Path, requests: Sequence[str], lines: Sequence[str], form: str = TO_END) -> SplitResult:
    (folder / "access.log").write_text("".join(requests))
    (folder / "app.log").write_text("".join(lines))
    app_log = sojourn.app_log_file(folder / "app.log", form)
    return sojourn.split(sojourn.log_file(folder / "access.log", FORMAT), app_log=app_log)


def rows_of(split: SplitResult) -> list[dict[str, Any]]:
    columns = ("queue", "service_time", "queue_source", "span_seconds", "wasted", "worker")
    return split.rows.select(columns).collect().to_dicts()


def match_of(split: SplitResult) -> AppLogMatch:
    assert split.audit.app_log is not None
    return split.audit.app_log


def check_of(split: SplitResult) -> Mapping[str, Any]:
    return next(each.to_dict() for each in split.audit.checks if each.to_dict()["name"] == "app_log")


def test_queue_is_what_the_duration_leaves_of_the_header_time(tmp_path: Path) -> None:
    split = split_of(tmp_path, [request(k, 0.3 + k / 10) for k in range(5)], [line(k, 0.25) for k in range(5)])
    for k, row in enumerate(rows_of(split)):
        assert row["service_time"] == pytest.approx(0.25)
        assert row["queue"] == pytest.approx(0.3 + k / 10 - 0.001 - 0.25)
        assert (row["queue_source"], row["worker"], row["span_seconds"]) == ("duration", "17", 0.25)
    assert split.sources == {"duration": 5}
    assert check_of(split)["verdict"] == "pass"


@pytest.mark.parametrize(
    ("header", "response", "duration", "queue"),
    [
        (0.301, 0.303, 0.25, 0.051),  # the sending is short: the middle of 50 and 52 ms
        (0.301, 2.301, 2.3, 0.0),  # the worker was held throughout: there was no wait
        (0.301, 2.301, 2.298, 0.001),
        (2.001, 2.051, 0.1, 1.925),  # 1.90 to 1.95 s: known well enough
        (0.301, 2.301, 2.1, None),  # 0 to 200 ms
        (1.301, 2.301, 1.05, None),  # 250 ms to 1.25 s
        (0.301, 9.001, 0.25, None),  # 50 to 300 ms: the client read slowly, which the app did not wait for
    ],
)
def test_sending_in_a_duration_bounds_the_queue(
    tmp_path: Path, header: float, response: float, duration: float, queue: float | None
) -> None:
    split = split_of(tmp_path, [request(0, header, response)], [line(0, duration)])
    (row,) = rows_of(split)
    if queue is None:
        assert (row["queue"], row["service_time"], row["queue_source"]) == (None, None, "none")
        assert (match_of(split).matched, match_of(split).unseparable) == (0, 1)
    else:
        assert row["queue"] == pytest.approx(queue, abs=1e-6)
        assert row["service_time"] == pytest.approx(header - 0.001 - queue, abs=1e-6)


def test_duration_to_the_headers_is_the_service_whatever_the_body(tmp_path: Path) -> None:
    split = split_of(tmp_path, [request(0, 0.301, 9.001)], [line(0, 0.25, form=TO_HEADERS)], TO_HEADERS)
    (row,) = rows_of(split)
    assert (row["service_time"], row["queue"], row["span_seconds"]) == (0.25, pytest.approx(0.05), None)


@pytest.mark.parametrize(("form", "until"), [(TO_END, 0.5), (TO_HEADERS, 0.3)])
def test_duration_longer_than_the_upstreams_own_time_is_not_used(tmp_path: Path, form: str, until: float) -> None:
    durations = [0.25] * 12 + [until + 0.02]
    lines = [line(k, seconds, form=form) for k, seconds in enumerate(durations)]
    split = split_of(tmp_path, [request(k, 0.301, 0.501 if form == TO_END else 0.301) for k in range(13)], lines, form)
    last = rows_of(split)[-1]
    assert (last["queue"], last["service_time"]) == (None, None)
    assert match_of(split).longer == 1
    assert (check_of(split)["verdict"], split.audit.negative) == ("fail", {})


def test_rounding_is_no_contradiction(tmp_path: Path) -> None:
    split = split_of(tmp_path, [request(k, 0.251) for k in range(12)], [line(k, 0.2515) for k in range(12)])
    assert match_of(split).longer == 0
    assert all(row["queue"] == pytest.approx(0, abs=0.001) for row in rows_of(split))


def test_unit_that_most_durations_contradict_is_refused(tmp_path: Path) -> None:
    with pytest.raises(sojourn.SojournError, match="100 % of its durations are longer than the proxy's own upstream"):
        split_of(tmp_path, [request(k, 0.3) for k in range(12)], [line(k, 250) for k in range(12)])


def test_durations_a_thousand_times_too_short_fail_the_audit(tmp_path: Path) -> None:
    requests = [request(k, 0.3 + k / 100) for k in range(30)]
    wrong = split_of(tmp_path, requests, [line(k, 0.00025) for k in range(30)])
    assert (match_of(wrong).tiny, check_of(wrong)["verdict"]) == (True, "fail")
    right = split_of(tmp_path, requests, [line(k, 0.25) for k in range(30)])
    assert (match_of(right).tiny, check_of(right)["verdict"]) == (False, "pass")


def test_ids_of_one_side_only_are_counted(tmp_path: Path) -> None:
    lines = [*(line(k, 0.25) for k in range(6)), line("other", 0.1), line("-", 0.1), "no line\n"]
    split = split_of(tmp_path, [request(k, 0.3) for k in range(8)], lines)
    match = match_of(split)
    assert (match.requests, match.matched, match.absent) == (8, 6, 2)
    assert (match.lines, match.unknown, match.without_id, match.refused) == (7, 1, 1, 1)
    assert "6 of 8 requests" in check_of(split)["sentence"]
    assert check_of(split)["verdict"] == "fail"
    assert split.to_dict()["audit"]["app_log"]["absent"] == 2


def test_nothing_in_common_is_refused(tmp_path: Path) -> None:
    with pytest.raises(sojourn.SojournError, match="no request id of the app log is in the proxy's log"):
        split_of(tmp_path, [request(0, 0.3)], [line("other", 0.25)])


def test_id_of_two_requests_is_of_neither(tmp_path: Path) -> None:
    requests = [request(0, 0.3), request(1, 0.4, id="r0"), request(2, 0.4)]
    split = split_of(tmp_path, requests, [line(0, 0.25), line(2, 0.25)])
    assert [row["service_time"] for row in rows_of(split)] == [None, None, 0.25]
    assert match_of(split).shared == 2


def retried(number: int) -> str:
    """A line of nginx: given up after 2 s at the first address, answered by the second in 101 ms."""
    return (
        f"{BEGIN_S + number + 2.101:.3f} 200 2.101 10.0.0.1:80, 10.0.0.2:80 0.001, 0.001 -, 0.101 2.000, 0.101 "
        f"r{number}\n"
    )


@pytest.mark.parametrize("order", [1, -1])
def test_line_that_fits_the_last_attempt_is_its_service(tmp_path: Path, order: int) -> None:
    lines = [line(0, 0.08, at=2), line(0, 5.0, at=5)][::order]
    split = split_of(tmp_path, [retried(0)], lines)
    (row,) = rows_of(split)
    assert (row["service_time"], row["queue"]) == (pytest.approx(0.08), pytest.approx(0.02))
    assert (match_of(split).superseded, match_of(split).superseded_seconds) == (1, 5.0)


def test_of_two_lines_that_fit_the_later_is_the_last_attempts(tmp_path: Path) -> None:
    lines = [line(0, 0.09, at=50), line(0, 0.08, at=40)]
    split = split_of(tmp_path, [retried(0)], lines)
    assert rows_of(split)[0]["service_time"] == pytest.approx(0.09)


def test_of_two_lines_in_one_second_neither_is_known_to_be_the_last(tmp_path: Path) -> None:
    lines = [line(0, 0.09, at=40), line(0, 0.08, at=40)]
    split = split_of(tmp_path, [retried(0), request(1, 0.3)], [*lines, line(1, 0.2)])
    assert rows_of(split)[0]["service_time"] is None
    assert (match_of(split).ambiguous, match_of(split).superseded) == (1, 0)


def test_abandoned_request_held_its_worker_for_the_duration(tmp_path: Path) -> None:
    (row,) = rows_of(split_of(tmp_path, [request(0, None, 1.0)], [line(0, 5.0)]))
    assert (row["wasted"], row["queue"]) == (5.0, None)


def test_own_lines_with_a_start_are_spans(tmp_path: Path) -> None:
    (tmp_path / "access.log").write_text(f"{request(0, 0.301).rstrip()} {BEGIN_S:.3f}\n")
    record = {"request_id": "r0", "service_time": 0.25, "start": BEGIN_S + 0.05}
    (tmp_path / "app.jsonl").write_text(json.dumps(record) + "\n")
    log = sojourn.log_file(tmp_path / "access.log", f"{FORMAT} $sojourn_start")
    (row,) = rows_of(sojourn.split(log, app_log=tmp_path / "app.jsonl"))
    assert row["queue_source"] == "span"
    assert row["queue"] == pytest.approx(0.05, abs=0.003)


def test_needs_times_of_the_upstream_and_ids(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_text(line(0, 0.25))
    (tmp_path / "whole.log").write_text(f"{BEGIN_S:.3f} 200 0.300 r0\n")
    app_log = sojourn.app_log_file(tmp_path / "app.log", TO_END)
    with pytest.raises(sojourn.SojournError, match="has no times of its upstream"):
        sojourn.split(
            sojourn.log_file(tmp_path / "whole.log", "$msec $status $request_time $request_id"), app_log=app_log
        )
    (tmp_path / "access.log").write_text(request(0, 0.3))
    nameless = FORMAT.replace("$request_id", "$something")
    with pytest.raises(sojourn.SojournError, match="has no request ids"):
        sojourn.split(sojourn.log_file(tmp_path / "access.log", nameless), app_log=app_log)


def test_whole_seconds_are_too_coarse(tmp_path: Path) -> None:
    form = "%T %{X-Request-ID}i"
    with pytest.raises(sojourn.SojournError, match="count in steps of 1,000 ms"):
        split_of(tmp_path, [request(k, 1.3) for k in range(25)], [f"1 r{k}\n" for k in range(25)], form)


def test_empty_app_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(sojourn.SojournError, match="no line could be used"):
        split_of(tmp_path, [request(0, 0.3)], [])

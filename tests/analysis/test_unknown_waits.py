"""A wait that is not in a log is unknown, never 0: in the verdict, the shares, and every command."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from time import gmtime, strftime

import pytest
import sojourn
from sojourn.analyses.audit.reading import doubts_of
from sojourn.analyses.split.run import split_from
from sojourn.invocation.answer import answer
from sojourn.model.errors import SojournError
from sojourn.model.frame import Requests
from sojourn.present.display import section_of
from sojourn.sources.log_files import with_log_format
from sojourn.sources.opening import requests_from
from sojourn.sources.requests import read

BEGIN = 1_767_225_600
REQUESTS = 400
WAIT, SERVICE = 0.070, 0.020  # s, of every request; known by durations alone, which need no clock
APP_LOG = "app server's own"


def app_line(number: int) -> str:
    """gunicorn's access log with %(D)s."""
    stamp = strftime("%d/%b/%Y:%H:%M:%S +0000", gmtime(BEGIN + number // 10))
    return f'198.51.100.{number % 200} - - [{stamp}] "GET /a HTTP/1.1" 200 512 "-" "curl/8.5" {SERVICE * 1e6:.0f}\n'


def proxy_line(number: int, *, reports: bool = True, **more: str) -> str:
    """Sojourn's record of a request that waited, and whose app says so or not."""
    start = BEGIN + number / 10
    record = {
        "time": f"{start + 0.1:.3f}", "request_time": "0.100", "status": "200", "uri": "/a",
        "request_id": f"r{number}", "upstream_addr": "10.0.0.1:80",
        "upstream_status": "200", "upstream_connect_time": "0.000",
        "upstream_header_time": f"{WAIT + SERVICE:.3f}", "upstream_response_time": "0.100",
        "service_time": f"{SERVICE:.6f}" if reports else "", "request_start": "-", **more,
    }  # fmt: skip
    return json.dumps(record) + "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("logs")
    (path / "app.log").write_text("".join(map(app_line, range(REQUESTS))))
    (path / "proxy.jsonl").write_text("".join(map(proxy_line, range(REQUESTS))))
    return path


def app_requests(folder: Path) -> Requests:
    return read(with_log_format([str(folder / "app.log")], "gunicorn"))


def test_log_of_an_app_server_says_nothing_of_waiting(folder: Path) -> None:
    result = sojourn.split(with_log_format([str(folder / "app.log")], "gunicorn"))
    assert result.verdict.cause == result.verdict.tail_cause == "unknown"
    assert APP_LOG in result.verdict.sentence
    assert "--app-log" in result.verdict.sentence
    assert "%" not in result.verdict.sentence
    values = result.to_dict()
    assert values["queueing_share"] is values["tail"]["p99"]["queueing_share"] is None
    assert set(values["components"]["queueing_delay"].values()) == {None}
    assert [row["queueing_share"] for row in values["by"]["route"]] == [None]
    assert values["audit"]["known"]["of_app"] == REQUESTS
    (headers,) = [check for check in values["audit"]["checks"] if check["name"] == "headers"]
    assert (headers["verdict"], "middleware" in headers["sentence"]) == ("fail", False)
    (row,) = [row for row in section_of(result).tables[0].rows if row[0] == "queueing delay"]
    assert row[1] == "–"
    assert values["components"]["service_time"]["mean"] == pytest.approx(SERVICE)


def test_no_command_calls_a_wait_zero_that_is_not_in_the_log(folder: Path) -> None:
    requests = requests_from(app_requests(folder))
    blamed = sojourn.blame(requests).to_dict()
    assert {blamed[name] for name in ("waited", "blamed", "imbalance", "dispatch", "unknown")} == {None}
    good = sojourn.goodput(requests)
    assert {good.to_dict()[name] for name in ("goodput", "given_up", "wasted_seconds", "wasted_share")} == {None}
    assert str(good).startswith("Unknown")
    assert sojourn.depth(requests).to_dict()["overall"]["mean_wait"] is None
    for refused in (sojourn.capacity, sojourn.infer, sojourn.whatif, sojourn.laws):
        with pytest.raises(SojournError, match=APP_LOG):
            refused(requests)


def test_logs_of_a_proxy_do_not_become_unknown(folder: Path) -> None:
    requests = requests_from(str(folder / "proxy.jsonl"))
    assert not requests.of_app
    assert sojourn.blame(requests).to_dict()["waited"] == pytest.approx(REQUESTS * WAIT)
    assert sojourn.goodput(requests).to_dict()["given_up"] == 0
    assert sojourn.capacity(requests, slo="p99=0.5").knees


def test_share_of_mixed_logs_is_of_the_requests_whose_wait_is_known(folder: Path) -> None:
    alone = sojourn.split(folder / "proxy.jsonl")
    mixed = sojourn.split([sojourn.log_file(folder / "app.log", format="gunicorn"), folder / "proxy.jsonl"])
    assert alone.verdict.cause == "queueing"
    assert mixed.queueing_share == pytest.approx(alone.queueing_share)
    assert alone.queueing_share == pytest.approx(WAIT / 0.1)
    assert mixed.verdict.cause == "unknown"
    assert f"{REQUESTS} of {2 * REQUESTS} answers" in mixed.verdict.sentence


def partly_known(path: Path, unknown: int, **more: str) -> Path:
    lines = [proxy_line(number, reports=number >= unknown, **more) for number in range(REQUESTS)]
    random.Random(1).shuffle(lines)
    path.write_text("".join(lines))
    return path


@pytest.mark.parametrize("unknown", [0, 2, 60, 390])
def test_share_is_of_the_known_requests_however_many_are_not(tmp_path: Path, unknown: int) -> None:
    result = sojourn.split(partly_known(tmp_path / "access.jsonl", unknown))
    assert result.queueing_share == pytest.approx(WAIT / 0.1)
    assert [row["queueing_share"] for row in result.by["upstream"]] == pytest.approx([result.queueing_share])


def test_verdict_says_of_how_many_requests_the_wait_is_known(tmp_path: Path) -> None:
    some = sojourn.split(partly_known(tmp_path / "some.jsonl", 60)).verdict
    assert "340 of 400 requests whose wait is known" in some.sentence
    assert "The wait of 60 of 400 requests is unknown." in some.sentence
    few = sojourn.split(partly_known(tmp_path / "few.jsonl", 2)).verdict
    assert "known" not in few.sentence
    most = sojourn.split(partly_known(tmp_path / "most.jsonl", 390)).verdict
    assert most.cause == "unknown"


def test_healthy_share_is_of_the_known_requests(tmp_path: Path) -> None:
    times = {"upstream_header_time": "0.080", "service_time": "0.070000"}
    lines = [proxy_line(n, **{**times, **({"service_time": ""} if n < 40 else {})}) for n in range(REQUESTS)]
    log = tmp_path / "access.jsonl"
    log.write_text("".join(lines))
    verdict = sojourn.split(log).verdict
    assert verdict.cause == "healthy"
    assert "was 10 % of it (of the 360 of 400 requests whose wait is known)" in verdict.sentence


def test_a_doubt_about_units_reaches_every_verdict(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clause = "1,000 times as much if its last number is in ms, not µs"
    requests = read(str(folder / "proxy.jsonl"))
    facts = replace(app_requests(folder).records.formats[0], source="proxy.jsonl", alternative=clause)
    requests.records.formats.append(facts)
    opened = requests_from(requests)
    result = split_from(opened)
    assert f"on average ({clause})" in result.verdict.sentence
    assert result.to_dict()["formats"][0]["alternative"] == clause
    assert any(clause in failure for failure in result.audit.failures())
    answer(sojourn.blame(opened), as_json=True, doubts=doubts_of(opened))
    (doubt,) = json.loads(capsys.readouterr().out)["doubts"]
    assert clause in doubt
    answer(sojourn.capacity(opened), as_json=False, doubts=doubts_of(opened))
    assert "1,000 times as much" in " ".join(capsys.readouterr().out.split())
    assert doubts_of(requests_from(str(folder / "proxy.jsonl"))) == ()


REFUSED = {"request_time": "soon"}
RETRIED = {
    "upstream_addr": "10.0.0.1:80, 10.0.0.2:80", "upstream_status": "502, 200", "upstream_connect_time": "-, 0.000",
    "upstream_header_time": "-, 0.050", "upstream_response_time": "0.010, 0.060",
}  # fmt: skip


@pytest.mark.parametrize(
    ("refused", "kind", "verdict", "words"),
    [
        (20, RETRIED, "fail", "100 % of these lines list several attempts"),
        (20, {"status": "503"}, "fail", "100 % of these lines have status 5xx"),
        (20, {}, "pass", "no kind of request"),
        (3, RETRIED, "pass", "of the lines were refused"),
        (6, RETRIED, "unknown", "too few"),
    ],
)
def test_audit_says_which_requests_are_missing(
    tmp_path: Path, refused: int, kind: dict[str, str], verdict: str, words: str
) -> None:
    log = tmp_path / "access.jsonl"
    lines = [proxy_line(n) for n in range(REQUESTS)] + [proxy_line(n, **kind, **REFUSED) for n in range(refused)]
    log.write_text("".join(lines))
    result = sojourn.split(log)
    (check,) = [check for check in result.audit.checks if check.name == "refused"]
    assert (check.verdict, words in check.sentence) == (verdict, True)
    assert (words in " ".join(result.audit.failures())) == (verdict == "fail")


def test_retried_requests_remain_when_one_of_their_lists_has_another_length(tmp_path: Path) -> None:
    """A column that is not known holds the list: the time of the attempts is lost, and nothing else."""
    form = (
        '$remote_addr [$time_local] "$request" $status $body_bytes_sent $msec $request_time $upstream_addr '
        "$upstream_response_time $upstream_status"
    )
    lines = []
    for number in range(REQUESTS):
        retried = number % 10 == 0
        once, twice = ("10.0.0.2:80", "0.090", 0.1), ("10.0.0.1:80, 10.0.0.2:80", "0.900", 1.0)
        addresses, times, took = twice if retried else once
        end = BEGIN + number / 10
        stamp = strftime("%d/%b/%Y:%H:%M:%S +0000", gmtime(end))
        lines.append(
            f'192.0.2.1 [{stamp}] "GET / HTTP/1.1" 200 5 {end:.3f} {took:.3f} {addresses} {times} '
            f"{'502, 200' if retried else '200'}\n"
        )
    log = tmp_path / "access.log"
    log.write_text("".join(lines))
    result = sojourn.split(with_log_format([str(log)], form))
    assert result.records.to_dict()["dropped"] == {"upstream_lists_differ": REQUESTS // 10}
    assert result.records.rejected == 0
    assert result.response_time["mean"] == pytest.approx((1.0 + 9 * 0.1) / 10)
    assert result.audit.known.unanswered == 0
    assert "no answer" not in result.verdict.sentence
    assert result.means["retries"] == 0.0


UPSTREAM = ("upstream_addr", "upstream_status", "upstream_header_time", "upstream_response_time")
NO_UPSTREAM = tuple(dict.fromkeys(UPSTREAM, value) for value in (None, "", "-", []))


def test_an_answer_without_an_app_is_none_that_an_app_owes(tmp_path: Path) -> None:
    """JSON lines of nginx's variables: of 60 the app answered, the others have no upstream, in every way of writing."""
    proxied = {
        "msec": "", "status": "200", "request_time": "0.050", "request_uri": "/a", "request_method": "GET",
        "upstream_addr": "10.0.0.1:80", "upstream_status": "200", "upstream_header_time": "0.040",
        "upstream_response_time": "0.048",
    }  # fmt: skip
    bare = {name: value for name, value in proxied.items() if name not in UPSTREAM}
    mixed = {"upstream_addr": None, "upstream_status": None, "upstream_header_time": "-", "upstream_response_time": "-"}
    without = [
        {**bare, **values, "status": status}
        for values in ({}, mixed, *NO_UPSTREAM)
        for status in ("301", 301, "200", 0, "0", "000")
    ]
    records: list[dict[str, object]] = [*[proxied] * 60, *without, {**bare, "status": None}]
    log = tmp_path / "access.log"
    lines = (json.dumps({**each, "msec": f"{BEGIN + n / 10:.3f}"}) for n, each in enumerate(records))
    log.write_text("\n".join(lines) + "\n")
    result = sojourn.split(log)
    total = result.audit.known.total
    assert result.records.reasons == {"missing_status": 1}
    assert (total.answered, total.not_proxied, result.audit.known.unanswered) == (60, len(without), 0)
    assert "no answer" not in result.verdict.sentence
    assert not any("had no answer" in note for note in result.notes)


def test_status_0_with_an_upstream_is_a_request_without_an_answer(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    unanswered = {"status": "0", "upstream_status": "-", "upstream_header_time": "-", "service_time": ""}
    log.write_text("".join(proxy_line(n, **(unanswered if n < 5 else {})) for n in range(50)))
    assert sojourn.split(log).audit.known.unanswered == 5

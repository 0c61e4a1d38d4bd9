"""The attempts of nginx's lists: a comma after a failed one, a colon where an internal redirect followed an answer."""

from __future__ import annotations

from pathlib import Path

import pytest
import sojourn
from plain_example import plain_log
from sojourn.components.split import checked_split
from sojourn.sources.log_files import with_log_format

FORMAT = (
    '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" '
    "$msec $request_time $upstream_addr $upstream_response_time $upstream_status"
)
COLUMNS = ("upstream", "retries", "redirects", "response", "redirected")
# Statuses, response times -> the backend's element, and seconds before it, of these in answers that did not fail, at
# it, and after it.
CASES = [
    ("200", "0.300", 0, 0.0, 0.0, 0.3, 0.0),
    ("200 : 200", "0.300 : 0.100", 0, 0.0, 0.0, 0.3, 0.1),
    ("302 : 200", "0.300 : 0.100", 0, 0.0, 0.0, 0.3, 0.1),
    ("502, 200 : 200", "0.300, 0.200 : 0.100", 1, 0.3, 0.0, 0.2, 0.1),
    ("200 : 502, 200", "0.300 : 0.200, 0.100", 0, 0.0, 0.0, 0.3, 0.3),
    ("200 : 200 : 200", "0.300 : 0.200 : 0.100", 0, 0.0, 0.0, 0.3, 0.3),
    ("200 : 502", "0.300 : 0.100", 0, 0.0, 0.0, 0.3, 0.1),
    # An attempt that failed.
    ("502, 200", "0.300, 0.100", 1, 0.3, 0.0, 0.1, 0.0),
    ("504, 504, 200", "0.300, 0.200, 0.100", 2, 0.5, 0.0, 0.1, 0.0),
    ("200, 200", "0.300, 0.100", 1, 0.3, 0.0, 0.1, 0.0),  # nginx went on to the next upstream
    ("502 : 200", "0.300 : 0.100", 1, 0.3, 0.0, 0.1, 0.0),  # and has an error_page
    # An answer that an error_page replaced; which of the two is the app is unknown.
    ("404 : 200", "0.300 : 0.100", 1, 0.3, 0.3, 0.1, 0.0),
    ("502, 404 : 200", "0.300, 0.200 : 0.100", 2, 0.5, 0.2, 0.1, 0.0),
    ("404 : 200 : 200", "0.300 : 0.200 : 0.100", 1, 0.3, 0.3, 0.2, 0.1),
    # Without statuses, the separator shows that the attempt was answered; which upstream is the app is unknown.
    ("-", "0.300 : 0.100", 1, 0.3, 0.3, 0.1, 0.0),
    ("- : 200", "0.300 : 0.100", 1, 0.3, 0.3, 0.1, 0.0),
    ("200", "0.300 : 0.100", 1, 0.3, 0.3, 0.1, 0.0),  # a list of another length says nothing of the attempts
]
ADDRESSES = ("10.0.0.1:80", "unix:/a b.sock:", "[::1]:80")


def addresses_of(response: str) -> str:
    for part, address in zip(("0.300", "0.200", "0.100"), ADDRESSES, strict=True):
        response = response.replace(part, address)
    return response


def json_line(status: str, response: str, **more: str) -> str:
    values = {
        "time": "1767225600.500", "request_time": "0.900", "status": "200", "upstream_addr": addresses_of(response),
        "upstream_status": status, "upstream_response_time": response, "upstream_header_time": response, **more,
    }  # fmt: skip
    return "{" + ",".join(f'"{key}":"{value}"' for key, value in values.items()) + "}\n"


def text_line(status: str, response: str) -> str:
    request = '198.51.100.1 - - [01/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "-"'
    return f"{request} 1767225600.500 0.900 {addresses_of(response)} {response} {status}\n".replace("a b", "ab")


@pytest.mark.parametrize("line", [json_line, text_line])
def test_attempts_are_divided_at_the_backend(tmp_path: Path, line) -> None:  # type: ignore[no-untyped-def]
    log = tmp_path / "access.log"
    log.write_text("".join(line(status, response) for status, response, *_ in CASES) * 3)
    rows = sojourn.read(with_log_format([str(log)], None if line is json_line else FORMAT)).rows
    result = rows.select(*COLUMNS).collect().rows()
    assert len(result) == 3 * len(CASES)
    for row, (_, response, backend, *seconds) in zip(result, CASES * 3, strict=True):
        times = [response.replace(" : ", ", ").split(", ")[backend]]
        address = addresses_of(times[0]) if line is json_line else addresses_of(times[0]).replace("a b", "ab")
        assert row[0] == address, response
        assert row[1:] == pytest.approx(tuple(seconds), abs=1e-9), response


def test_times_of_the_app_are_of_the_upstream_that_nginx_has_the_headers_of(tmp_path: Path) -> None:
    """``$upstream_http_x_service_time`` is of the last upstream: a front app that redirects to a wrapped one."""
    log = tmp_path / "access.jsonl"
    log.write_text(json_line("200 : 200", "0.300 : 0.100", service_time="0.080", request_start="1767225599.600"))
    row = checked_split(sojourn.read(log).rows).row(0, named=True)
    assert (row["upstream"], row["retries"], row["redirected"]) == ("[::1]:80", 0.3, 0.0)
    assert row["service_time"] == pytest.approx(0.08)
    assert row["queue"] == pytest.approx(0.02)


def test_components_add_up_with_what_follows_a_redirect(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    log.write_text("".join(json_line(status, response) for status, response, *_ in CASES))
    result = sojourn.split(log)
    assert result.audit.identity_max_error < 1e-9
    assert sum(result.means.values()) == pytest.approx(0.9)
    assert result.means["redirected"] == pytest.approx(sum(case[-1] for case in CASES) / len(CASES))


@pytest.fixture(scope="module")
def truth() -> tuple[list[str], float]:
    """The lines of four workers' log, and the true mean wait, s."""
    lines, waits = plain_log(requests=3_000)
    return lines.decode().splitlines(), float(waits.mean())


def redirected(lines: list[str], status: str, file_store: float = 0.002) -> str:
    """The same log, where each answer leads to a file store; its time comes after the app's."""
    text = ""
    for line in lines:
        before, end, took, address, response = line.rsplit(" ", 4)
        end, took = f"{float(end) + file_store:.3f}", f"{float(took) + file_store:.3f}"
        text += f"{before} {end} {took} {address} : 10.0.0.9:9000 {response} : {file_store:.3f} {status}\n"
    return text


def test_waits_are_inferred_at_the_app_that_redirects(tmp_path: Path, truth: tuple[list[str], float]) -> None:
    lines, wait = truth
    log = tmp_path / "access.log"
    log.write_text(redirected(lines, "200 : 200"))
    result = sojourn.split(with_log_format([str(log)], FORMAT))
    assert result.by["upstream"][0]["upstream"] == "10.0.0.1:8000"
    assert len(result.by["upstream"]) == 1
    assert result.components["queueing_delay"]["mean"] == pytest.approx(wait, rel=0.05)
    assert result.components["redirected"]["mean"] == pytest.approx(0.002)
    assert result.means["retries"] == 0.0
    assert result.verdict.cause != "retries"
    assert "attempts before" not in result.verdict.sentence
    assert result.to_dict()["components"]["redirected"]["p99"] == pytest.approx(0.002)


def test_time_at_a_slow_file_store_is_neither_the_clients_nor_of_failed_attempts(
    tmp_path: Path, truth: tuple[list[str], float]
) -> None:
    log = tmp_path / "access.log"
    log.write_text(redirected(truth[0][:1000], "200 : 200", file_store=5.0))
    result = sojourn.split(with_log_format([str(log)], FORMAT))
    assert result.verdict.cause == "unknown"
    assert result.means["redirected"] == pytest.approx(5.0)
    assert any("internal redirect of the app" in note for note in result.notes)


def test_an_error_page_after_a_failed_attempt_is_a_retry(tmp_path: Path, truth: tuple[list[str], float]) -> None:
    log = tmp_path / "access.log"
    log.write_text(redirected(truth[0][:1000], "502 : 200"))
    result = sojourn.split(with_log_format([str(log)], FORMAT))
    assert result.verdict.cause == "retries"
    assert result.by["upstream"][0]["upstream"] == "10.0.0.9:9000"


@pytest.mark.parametrize("status", ["-", "404 : 200"])
def test_an_answer_that_something_replaced_is_unknown_time_and_no_retry(
    tmp_path: Path, truth: tuple[list[str], float], status: str
) -> None:
    log = tmp_path / "access.log"
    log.write_text(redirected(truth[0][:1000], status))
    result = sojourn.split(with_log_format([str(log)], FORMAT))
    assert result.verdict.cause == "unknown"
    assert result.evidence.redirects == pytest.approx(result.means["retries"])
    assert any("internal redirect replaced" in note for note in result.notes)

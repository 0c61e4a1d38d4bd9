"""The audit's named checks: each fails where it should, says what mends it, and is unknown where too little tells."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import sojourn
from clock_support import Seen, lines_of, requests_through

NAMES = (
    "formats",
    "refused",
    "identity",
    "little",
    "stationarity",
    "utilisation",
    "headers",
    "impossible",
    "resolution",
    "clock",
    "duplicates",
)


def audited(folder: Path, seen: list[Seen]) -> dict[str, dict[str, object]]:
    """Return checks by name; exactly the failed ones are in ``failures``."""
    (folder / "a.jsonl").write_bytes(lines_of(seen))
    audit = sojourn.split(folder / "a.jsonl").to_dict()["audit"]
    assert [check["name"] for check in audit["checks"]] == list(NAMES)
    failed = [check["sentence"] for check in audit["checks"] if check["verdict"] == "fail"]
    assert audit["failures"] == failed
    return {check["name"]: check for check in audit["checks"]}


def steady(**more: object) -> list[Seen]:
    return list(requests_through(lambda _: 0.02, **{"requests": 2000, "rate": 14.0, **more}))  # type: ignore[arg-type]


def test_a_sound_log_passes_every_check(tmp_path: Path) -> None:
    verdicts = {name: check["verdict"] for name, check in audited(tmp_path, steady()).items()}
    assert verdicts == dict.fromkeys(NAMES, "pass")


@pytest.mark.parametrize(("silent", "verdict"), [(100, "pass"), (300, "fail")])
def test_one_answer_in_ten_without_headers_is_the_limit(tmp_path: Path, silent: int, verdict: str) -> None:
    seen = steady()
    for one in random.Random(1).sample(seen, silent):
        one.record.update(queueing_delay="-", service_time="-")
    check = audited(tmp_path, seen)["headers"]
    assert (check["verdict"], check["value"], check["threshold"]) == (verdict, 1 - silent / 2000, 0.9)
    assert ("middleware" in str(check["sentence"])) == (verdict == "fail")


@pytest.mark.parametrize(
    ("tick", "busy", "verdict"),
    [(0.001, 0.0, "pass"), (0.01, 0.4, "pass"), (0.1, 0.4, "fail"), (1.0, 30.0, "fail")],
)
def test_a_stamp_coarser_than_a_tenth_of_the_delay_or_in_whole_seconds(
    tmp_path: Path, tick: float, busy: float, verdict: str
) -> None:
    check = audited(tmp_path, steady(tick=tick, busy=busy))["resolution"]
    assert (check["verdict"], check["value"]) == (verdict, tick)


def test_requests_like_clockwork_do_not_make_a_clock_coarse(tmp_path: Path) -> None:
    """One a second, at the same instant of it: a cron job's, or a health check's."""
    seen = steady(requests=60, rate=0.01)
    for number, one in enumerate(seen):
        start = 1_767_225_600 + number
        one.record.update(
            request_start=f"{start}.100", time=f"{start}.900", request_time="0.800", upstream_header_time="0.800",
            upstream_response_time="0.800", queueing_delay="0.500000", service_time="0.300000",
        )  # fmt: skip
    assert audited(tmp_path, seen)["resolution"]["verdict"] == "unknown"


def test_too_little_is_unknown_and_no_failure(tmp_path: Path) -> None:
    checks = audited(tmp_path, steady(requests=5))
    assert [name for name, check in checks.items() if check["verdict"] == "unknown"] == [
        "little", "stationarity", "resolution",
    ]  # fmt: skip

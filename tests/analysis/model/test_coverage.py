"""One judgement of what is known, read by verdict, audit, notes and watch; unknown time is never healthy."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from analysis_support import audit_check, split_of_log
from clock_support import Seen, lines_of, requests_through
from sojourn.analyses.split.readings import distribution
from sojourn.analyses.split.result import SplitResult
from sojourn.analyses.split.table import audit_sentence
from sojourn.model.verdict import verdict

BACKENDS = ("10.0.0.1:80", "10.0.0.2:80")
FEW = 450  # requests of a backend, too few to infer its queue


def two_backends(rate: float = 3.0, requests: int = 1000) -> list[Seen]:
    return [
        one
        for seed, backend in enumerate(BACKENDS, start=1)
        for one in requests_through(lambda _: 0.02, requests=requests, rate=rate, upstream=backend, seed=seed)
    ]


def measured(folder: Path, seen: list[Seen], **options: Any) -> SplitResult:
    return split_of_log(folder, lines_of(seen), **options)


def without(seen: list[Seen], *keys: str, backend: str = "") -> list[Seen]:
    for one in seen:
        if one.record["upstream_addr"].startswith(backend):
            one.record.update(dict.fromkeys(keys, "-"))
    return seen


def headers(result: SplitResult) -> dict[str, Any]:
    return audit_check(result, "headers")


def test_a_service_time_without_a_stamp_is_known_by_durations(tmp_path: Path) -> None:
    """PHP and uWSGI as their recipes set them up: a service time, and no stamp that reaches the app."""
    result = measured(tmp_path, without(two_backends(rate=19.0), "queueing_delay"))
    assert result.verdict.cause == "queueing"
    check = headers(result)
    assert (check["verdict"], check["value"]) == ("pass", 1.0)
    assert "100 % by durations alone" in check["sentence"]
    assert "known for 100 % of the answers (100 % by durations alone)" in audit_sentence(result)
    known = result.to_dict()["audit"]["known"]
    assert (known["answered"], known["by_stamp"], known["by_duration"], known["silent"]) == (2000, 0, 2000, 0)
    assert [note for note in result.notes if "X-Request-Start" in note]
    assert not [note for note in result.notes if "middleware" in note]


def test_half_of_the_backends_silent_is_not_healthy(tmp_path: Path) -> None:
    whole = measured(tmp_path, two_backends(requests=FEW))
    assert whole.verdict.cause == "healthy"
    result = measured(
        tmp_path, without(two_backends(requests=FEW), "queueing_delay", "service_time", backend=BACKENDS[1])
    )
    assert result.response_time["p99"] < 0.5
    assert result.verdict.cause == "unknown"
    assert BACKENDS[1] in result.verdict.sentence
    assert BACKENDS[0] not in result.verdict.sentence
    assert "Of the known time" in result.verdict.sentence


def test_answers_without_headers_are_answers(tmp_path: Path) -> None:
    """All had status 200; those without an answer (504, 499) are counted apart."""
    seen = without(two_backends(requests=FEW), "queueing_delay", "service_time", backend=BACKENDS[1])
    for one, status in zip(random.Random(1).sample(seen[:FEW], 30), ["504"] * 20 + ["499"] * 10, strict=True):
        one.record.update(status=status, upstream_status=status, upstream_header_time="-", queueing_delay="-")
        one.record.update(service_time="-")
    result = measured(tmp_path, seen)
    silent, unanswered = result.notes[:2]
    assert silent.startswith("450 of 870 answers")
    assert BACKENDS[1] in silent
    assert unanswered.startswith("30 requests to an app had no answer from it (504: 20, 499: 10)")


def test_all_silent_says_nothing_of_queueing(tmp_path: Path) -> None:
    result = measured(tmp_path, without(two_backends(requests=FEW), "queueing_delay", "service_time"), by=("upstream",))
    shown = result.to_dict()
    assert result.verdict.cause == "unknown"
    assert "queueing" not in result.verdict.sentence
    assert "0 %" not in result.verdict.sentence.replace("100 %", "")
    assert (shown["queueing_share"], shown["tail"]["p99"]["queueing_share"]) == (None, None)
    assert [row["queueing_share"] for row in shown["by"]["upstream"]] == [None, None]
    assert "0 %" not in distribution(result)
    assert headers(result)["verdict"] == "fail"


def test_answers_of_nginx_itself_are_not_unknown(tmp_path: Path) -> None:
    seen = two_backends()
    for one in seen[:500]:
        one.record.update({key: "" for key in one.record if key.startswith("upstream_")})
        one.record.update(queueing_delay="", service_time="")
    result = measured(tmp_path, seen)
    assert any(note.startswith("500 requests did not go to an app") for note in result.notes)
    assert not any("had no answer" in note for note in result.notes)


@pytest.mark.parametrize(
    ("unattributed", "cause"), [(0.005, "healthy"), (0.03, "unknown"), (0.015, "healthy"), (0.5, "unknown")]
)
def test_unknown_time_counts_as_possible_queueing(unattributed: float, cause: str) -> None:
    means = {"queue": 0.005, "service_time": 0.05, "upload": 0.03, "unattributed": unattributed}
    assert verdict(means, means, 0.2, 1000).cause == cause


def test_a_network_of_a_millisecond_is_healthy() -> None:
    means = {"queue": 0.0001, "service_time": 0.001, "network": 0.003}
    assert verdict(means, means, 0.02, 1000).cause == "healthy"

"""One sentence, and the right one."""

from __future__ import annotations

import pytest
from sojourn.model.components import COMPONENTS
from sojourn.model.verdict import CAUSES, CLIENT, Evidence, cause_shares, verdict


def judged(tail: dict[str, float] | None = None, p99: float = 1.0, **means: float):
    return verdict(means, tail or means, p99, 1000, slo=0.5)


def test_every_component_belongs_to_exactly_one_cause() -> None:
    parts = [part for group in CAUSES.values() for part in group]
    assert sorted(parts) == sorted(COMPONENTS)


@pytest.mark.parametrize(
    ("means", "cause", "words"),
    [
        ({"queue": 0.9, "service_time": 0.1}, "queueing", "queue, not the code"),
        ({"queue": 0.9, "service_time": 0.1}, "queueing", "went waiting for a worker"),
        ({"connect": 0.9, "service_time": 0.1}, "queueing", "queue, not the code"),
        ({"connect": 0.5, "queue": 0.4, "service_time": 0.1}, "queueing", "most of it for a connection to the app"),
        ({"queue": 0.1, "service_time": 0.9}, "service", "not a queue in front of it"),
        ({"transfer": 0.9, "queue": 0.1}, "body", "body of the answer"),
        ({"upload": 0.9, "queue": 0.1}, "before", "`auth_request`, `limit_req`"),
        ({"send": 0.9, "queue": 0.1}, "after", "`mirror`, `slice` or a resolver"),
        ({"upload": 0.3, "send": 0.4, "transfer": 0.2, "queue": 0.1}, "mixed", "No single cause"),
        ({"retries": 0.9, "queue": 0.1}, "retries", "earlier attempts"),
        ({"unattributed": 0.9, "queue": 0.1}, "unknown", "Unknown"),
        ({"queue": 0.5, "service_time": 0.5}, "mixed", "No single cause"),
    ],
)
def test_cause(means: dict[str, float], cause: str, words: str) -> None:
    result = judged(**means)
    assert result.cause == cause
    assert words in result.sentence


def test_fast_with_little_queueing_is_healthy() -> None:
    assert judged(p99=0.2, service_time=0.1, queue=0.01).cause == "healthy"
    assert judged(p99=0.2, service_time=0.1, queue=0.2).cause == "queueing"
    assert judged(p99=0.9, service_time=0.1, queue=0.01).cause == "service"


def test_a_tail_with_another_cause_is_reported() -> None:
    result = judged(tail={"queue": 0.1, "send": 0.9}, queue=0.7, service_time=0.3)
    assert (result.cause, result.tail_cause) == ("queueing", "after")
    assert "slowest 1 % are different" in result.sentence


@pytest.mark.parametrize(("cause", "part"), [("before", "upload"), ("after", "send")])
def test_names_the_client_of_large_messages_only(cause: str, part: str) -> None:
    means = {part: 0.9, "queue": 0.1}
    for large, named in ((0.0, cause), (0.4, cause), (0.5, CLIENT)):
        evidence = Evidence({cause: large})
        result = verdict(means, means, 1.0, 1000, evidence=(evidence, evidence))
        assert result.cause == named
        assert ("but the client" in result.sentence) == (named == CLIENT)


def test_app_that_may_wait_for_an_upload_is_not_blamed_alone() -> None:
    means = {"service_time": 0.9, "queue": 0.1}
    evidence = Evidence({"service": 0.6})
    result = verdict(means, means, 1.0, 1000, evidence=(evidence, evidence))
    assert result.cause == "service"
    assert "`proxy_request_buffering off`" in result.sentence


def test_answers_before_an_internal_redirect_did_not_fail() -> None:
    means = {"retries": 0.9, "queue": 0.1}
    evidence = Evidence(redirects=0.85)
    result = verdict(means, means, 1.0, 1000, evidence=(evidence, evidence))
    assert (result.cause, result.tail_cause) == ("unknown", "unknown")
    assert cause_shares(means, evidence)["retries"] == pytest.approx(0.05)


def test_way_to_an_idle_backend_is_network() -> None:
    means = {"queue": 0.7, "service_time": 0.3}
    evidence = Evidence(way=0.65)
    result = verdict(means, means, 1.0, 1000, evidence=(evidence, evidence))
    assert result.cause == "network"
    shares = cause_shares(means, evidence)
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares["queueing"] == pytest.approx(0.05)


@pytest.mark.parametrize(("in_doubt", "cause"), [(0.0, "queueing"), (0.1, "queueing"), (0.4, "unknown")])
def test_way_in_doubt_is_neither_queue_nor_network(in_doubt: float, cause: str) -> None:
    means = {"queue": 0.7, "service_time": 0.3}
    evidence = Evidence(way_in_doubt=in_doubt)
    result = verdict(means, means, 1.0, 1000, evidence=(evidence, evidence))
    assert result.cause == cause
    if cause == "unknown":
        assert "on the way to a backend or in its queue" in result.sentence
        assert "50 % went waiting for a worker" in result.sentence


def test_wait_in_a_cache_lock_is_queueing() -> None:
    means = {"send": 0.7, "service_time": 0.2, "queue": 0.1}
    evidence = Evidence({"after": 0.7}, locked={"after": 0.6})
    result = verdict(means, means, 1.0, 1000, evidence=(evidence, evidence))
    assert result.cause == "queueing"
    assert "fill the cache (`proxy_cache_lock`)" in result.sentence
    assert sum(cause_shares(means, evidence).values()) == pytest.approx(1.0)
    known = verdict(means, means, 1.0, 1000, evidence=(evidence, evidence), directives={"locked": ["`x` (a.conf:3)"]})
    assert "fill the cache (`x` (a.conf:3))" in known.sentence


@pytest.mark.parametrize(("cause", "part"), [("before", "upload"), ("after", "send")])
def test_limit_that_delays_requests_is_named(cause: str, part: str) -> None:
    means = {part: 0.9, "queue": 0.1}
    for limited, named in ((0.4, False), (0.5, True)):
        evidence = Evidence(limited={cause: limited})
        result = verdict(means, means, 1.0, 1000, evidence=(evidence, evidence))
        assert result.cause == cause
        assert ("in requests that `limit_req` delayed" in result.sentence) == named


@pytest.mark.parametrize(
    ("part", "size", "directives", "words"),
    [
        ("upload", 0.0, {"before": ["`a` (x:1)", "`b` (x:2)"]}, "client, or `a` (x:1) or `b` (x:2) delayed it"),
        ("upload", 0.0, {}, "slowly from the client; no directive of the configuration delays it"),
        ("upload", 0.9, {"before": ["`a` (x:1)"]}, "the client's upload, unless `a` (x:1) delays them."),
        ("upload", 0.9, {}, "the client's upload."),
        ("send", 0.9, {}, "the client reads them."),
        ("send", 0.0, {"after": ["`a`", "`b`", "`c`", "`d`"]}, "slowly, or `a`, `b`, `c` or `d` delayed it"),
        ("send", 0.0, {"after": ["`a`", "`b`", "`c`", "`d`", "`e`"]}, "slowly, or `a`, `b`, `c` or 2 more delayed it"),
        ("transfer", 0.9, {}, "the app produces them."),
        ("transfer", 0.9, {"body": ["`a` (x:1)"]}, "produces them, or, with `a` (x:1), the client reads them slowly."),
        ("service_time", 0.9, {}, "nginx has read them before."),
        ("service_time", 0.9, {"service": ["`a` (x:1)"]}, "with `a` (x:1) the app waits for their upload there."),
    ],
)  # fmt: skip
def test_directives_of_a_configuration_are_named(
    part: str, size: float, directives: dict[str, list[str]], words: str
) -> None:
    cause = {"upload": "before", "send": "after", "transfer": "body", "service_time": "service"}[part]
    means = {part: 0.9, "queue": 0.1}
    evidence = Evidence({cause: size})
    result = verdict(means, means, 1.0, 1000, evidence=(evidence, evidence), directives=directives)
    assert words in result.sentence

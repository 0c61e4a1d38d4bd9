"""Whether the user's own app reports its times: by the split's audit, in a sentence, and beside the criteria."""

from __future__ import annotations

from typing import Any

import pytest
from sojourn_lab.results.app_times import AppTimes, app_times_of, app_times_sentence, note_on
from syrupy.assertion import SnapshotAssertion


def split_with(**counts: int) -> dict[str, Any]:
    """Return the part of a split that counts answers by where their queue comes from."""
    answers = {"answered": 0, "by_stamp": 0, "by_duration": 0, "inferred": 0, "silent": 0}
    return {"audit": {"known": {**answers, **counts}}}


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"answered": 9, "by_stamp": 8, "by_duration": 1}, AppTimes("measured", 9, 9)),
        ({"answered": 9, "by_stamp": 3, "silent": 6}, AppTimes("partly", 9, 3)),
        ({"answered": 9, "inferred": 9}, AppTimes("inferred", 9, 0)),
        ({"answered": 9, "silent": 9}, AppTimes("unknown", 9, 0)),
        ({}, None),
    ],
)
def test_source_of_the_times_is_that_of_the_split(counts: dict[str, int], expected: AppTimes | None) -> None:
    assert app_times_of(split_with(**counts)) == expected
    assert app_times_of(None) is None


def test_sentence_says_where_queueing_and_service_come_from(snapshot: SnapshotAssertion) -> None:
    several = [
        [AppTimes("measured", 9, 9)],
        [AppTimes("measured", 9, 9), AppTimes("unknown", 3, 0)],
        [AppTimes("inferred", 9, 0)],
        [AppTimes("unknown", 1, 0)],
        [],
    ]
    assert [app_times_sentence(each) for each in several] == snapshot


@pytest.mark.parametrize(
    ("metric", "value", "notes"),
    [
        ("client.failed", 0.0, ("", "", "", "")),
        ("split.response_time.mean", 0.1, ("", "", "", "")),
        ("split.components.service_time.mean", None, ("", "missing", "missing", "missing")),
        ("split.components.queueing_delay.p99", 0.1, ("", "part", "inferred", "")),
        ("one:split.queueing_share", 0.1, ("", "part", "inferred", "")),
        ("split.components.connect.mean", 0.1, ("", "", "", "")),
    ],
)
def test_criterion_that_needs_the_times_of_the_app_has_a_note(
    metric: str, value: float | None, notes: tuple[str, ...]
) -> None:
    kinds = {
        "": "",
        "not measured: the app reports no times": "missing",
        "inferred: the app reports no times": "inferred",
        "of the answers that have the app's times": "part",
    }
    assert (
        tuple(kinds[note_on(metric, value, source)] for source in ("measured", "partly", "inferred", "unknown"))
        == notes
    )

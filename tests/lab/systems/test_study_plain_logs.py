"""No statement of Sojourn on a log without the app's times is wrong without a caution."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import pytest
import systems.kinds  # noqa: F401 - registers the kinds
from systems.registry import KINDS
from systems.study import REFUSED, RIGHT, Statement, studied_plain

ABOUT = (
    "inferred wait", "verdict", "queue", "free workers", "culprit", "utilisation", "laws", "workers=+1", "workers=+2",
    "service:ROUTE=x0.5", "processes=one_queue", "limit=+1", "absent=none", "pool=+1",
)  # fmt: skip
PLAIN = sorted(name for name, kind in KINDS.items() if kind.theme == "plain")


@cache
def statements(name: str) -> list[Statement]:
    with tempfile.TemporaryDirectory() as folder:
        return studied_plain(KINDS[name], Path(folder))


@pytest.mark.parametrize("name", KINDS)
def test_statements_are_right_or_refused(name: str) -> None:
    wrong = [each for each in statements(name) if each.judgement not in (RIGHT, REFUSED)]
    assert wrong == []
    assert {each.about for each in statements(name)} <= set(ABOUT)


@pytest.mark.parametrize("name", PLAIN)
def test_wait_of_a_plain_system_is_inferred_and_replayed(name: str) -> None:
    judged = {each.about: each.judgement for each in statements(name)}
    assert judged["inferred wait"] == RIGHT
    assert {judged[about] for about in ("verdict", "queue", "utilisation", "workers=+1", "workers=+2")} <= {RIGHT}

"""No statement of Sojourn on a kind of system is wrong without a caution, nor on its log without the app's times."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest
import systems.kinds  # noqa: F401 - registers the kinds
from systems.__main__ import main
from systems.page import page
from systems.registry import KINDS
from systems.study import REFUSED, RIGHT, WRONG, Finding, Statement, studied
from wide_tables import one_of

ABOUT = (
    "verdict", "queue", "free workers", "accounts", "culprit", "utilisation", "laws", "workers=+1", "workers=+2",
    "service:ROUTE=x0.5", "processes=one_queue", "limit=+1", "absent=none", "pool=+1",
    "workers_needed",
)  # fmt: skip
ABOUT_PLAIN_LOGS = (
    "inferred wait", "verdict", "queue", "free workers", "culprit", "utilisation", "laws", "workers=+1", "workers=+2",
    "service:ROUTE=x0.5", "processes=one_queue", "limit=+1", "absent=none", "pool=+1",
)  # fmt: skip
PLAIN = sorted(name for name, kind in KINDS.items() if kind.theme == "plain")


@cache
def finding(name: str) -> Finding:
    return studied(KINDS[name])


@pytest.mark.parametrize("about", ABOUT)
@pytest.mark.parametrize("name", one_of(6, KINDS))
def test_statement_is_right_or_refused(name: str, about: str) -> None:
    for each in finding(name).statements:
        if each.about == about:
            assert each.judgement in (RIGHT, REFUSED), f"{each.said}; truth: {each.truth}"


@pytest.mark.parametrize("name", one_of(3, PLAIN))
def test_nothing_is_refused_for_a_plain_system(name: str) -> None:
    assert [each.about for each in finding(name).statements if each.judgement == REFUSED] == []


@pytest.mark.parametrize("name", one_of(6, KINDS))
def test_statement_on_a_log_without_the_times_of_the_app_is_right_or_refused(name: str) -> None:
    statements = finding(name).plain
    assert [each for each in statements if each.judgement not in (RIGHT, REFUSED)] == []
    assert {each.about for each in statements} <= set(ABOUT_PLAIN_LOGS)


@pytest.mark.parametrize("name", one_of(3, PLAIN))
def test_wait_of_a_plain_system_is_inferred_and_replayed(name: str) -> None:
    judged = {each.about: each.judgement for each in finding(name).plain}
    assert judged["inferred wait"] == RIGHT
    assert {judged[about] for about in ("verdict", "queue", "utilisation", "workers=+1", "workers=+2")} <= {RIGHT}


def test_page_counts_and_lists_statements() -> None:
    statements = [Statement("verdict", "a queue", "a queue", RIGHT), Statement("queue", "none", "40 ms", WRONG)]
    written = page([Finding("pool", "plain", "a pool", statements, statements[:1])], "")
    assert "1 kinds, 2 statements: 1 right, 0 refused, 1 wrong." in written
    assert "1 kinds, 1 statements: 1 right, 0 refused, 0 wrong." in written
    assert "| pool | a pool | verdict | – | queue |" in written


def test_command_writes_log_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--kind", "one-worker", "--log", str(tmp_path), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [each["kind"] for each in printed] == ["one-worker"]
    assert {each["about"] for each in printed[0]["statements"]} <= set(ABOUT)
    assert (tmp_path / "one-worker.jsonl").stat().st_size > 100_000


def test_published_page_lists_every_kind() -> None:
    published = (Path(__file__).parents[3] / "docs/reference/systems.md").read_text()
    assert re.findall(r"refused, (\d+) wrong\.", published) == ["0", "0"]
    assert [name for name in KINDS if f"\n### {name}\n" not in published] == []

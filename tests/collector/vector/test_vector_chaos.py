"""The agent killed, the log rotated, the store away or refusing: no line is missing, and none counts twice."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sojourn
from clickhouse_http import StandIn
from collector_support import eventually
from shipping_run import ARRIVES_S, FOR_EVER, Scene
from sojourn.store import connect, refresh_rollups

# The path comes first.
from split_support import BAD_LINES, as_lines, differences, without_duplicates
from vector_run import vector_program

pytest.importorskip("chdb")


@pytest.fixture
def scene(tmp_path: Path, store_in: Callable[[Path], StandIn], request: pytest.FixtureRequest) -> Iterator[Scene]:
    vector_program()  # or there is nothing to prepare
    with store_in(tmp_path) as store:
        scene = Scene(tmp_path, store, getattr(request, "param", 4000))
        try:
            yield scene
        finally:
            scene.close()


def started_and_killed(scene: Scene, pause_s: float) -> None:
    """Start the agent, wait until it has sent something and ``pause_s`` more, and kill it."""
    heard = scene.heard()
    scene.agent.start()
    eventually(lambda: scene.heard() > heard + 2, "the agent to send", ARRIVES_S)
    threading.Event().wait(pause_s)
    scene.agent.kill()


def killed_without_answers(scene: Scene) -> None:
    """Start the agent before a store that keeps rows and loses its answers, and kill it when lines came twice."""
    scene.store.control(lose=FOR_EVER)
    scene.agent.start()
    eventually(lambda: scene.delivered() > scene.distinct(), "lines to arrive twice", ARRIVES_S)
    scene.agent.kill()
    scene.store.control(lose=0)


# What happens after each kill; "answers lost" is a kill of its own kind.
SHORT = ("answers lost", "rename", "store away", "store back", "copy and truncate")
WHOLE = (
    "", "rename", "", "store away", "rename", "store back", "", "copy and truncate", "answers lost", "",
)  # fmt: skip


@pytest.mark.parametrize(
    ("scene", "plan", "away_s", "pause_s"),
    [
        pytest.param(20_000, SHORT, 5.0, 0.3, id="short"),
        pytest.param(
            80_000, WHOLE, 60.0, 2.5, id="whole", marks=[pytest.mark.thorough, pytest.mark.timeout(400)]
        ),
    ],
    indirect=["scene"],
)  # fmt: skip
def test_kills_under_a_steady_flow_lose_nothing(
    scene: Scene, plan: tuple[str, ...], away_s: float, pause_s: float, tmp_path: Path
) -> None:
    """Kills without warning, rotations by renaming, a copytruncate, lost answers and an absence of the store."""
    store, writer = scene.store, scene.writer
    away_since = 0.0
    scene.sample()
    writer.start()
    for number, event in enumerate(plan):
        if event == "answers lost":
            killed_without_answers(scene)
            continue
        started_and_killed(scene, pause_s * (0.6 + number % 5 / 5))
        match event:
            case "rename":
                writer.rename()
            case "copy and truncate":
                writer.copy_and_truncate()
            case "store away":
                store.control(refuse=FOR_EVER)
                away_since = time.monotonic()
            case "store back":
                threading.Event().wait(max(0.0, away_since + away_s - time.monotonic()))
                store.control(refuse=0)
    scene.agent.start()
    writer.end()
    eventually(scene.complete, "every line", ARRIVES_S)
    scene.agent.stop()

    scene.assert_nothing_is_missing()
    assert scene.delivered() > len(writer.good) + len(writer.bad)

    with connect(store.dsn()) as opened:
        refresh_rollups(opened)
    assert scene.figure("sum(requests)", "rollup_minute FINAL") == len(writer.good)
    whole = tmp_path / "whole.jsonl"
    bad = itertools.islice(itertools.cycle(raw for raw, _ in BAD_LINES), len(writer.bad))
    whole.write_bytes(b"".join([*as_lines(scene.records[: len(writer.good)]), *bad]))
    of_the_log = sojourn.split(whole).to_dict()
    of_the_store = sojourn.split(store.dsn()).to_dict()
    del of_the_log["records"], of_the_store["records"]
    assert list(differences(without_duplicates(of_the_log), without_duplicates(of_the_store))) == []


def test_a_password_that_is_mended_later_costs_nothing(scene: Scene) -> None:
    """The agent waits at a 403 and goes on by itself; the lines that came meanwhile are in the log."""
    scene.store.control(deny=FOR_EVER)
    scene.writer.write(1000)
    scene.agent.start()
    eventually(lambda: scene.store.control()["denied"] > 1, "two refusals", ARRIVES_S)
    scene.writer.write(1000)
    denied = scene.store.control()["denied"]
    eventually(lambda: scene.store.control()["denied"] > denied + 1, "more refusals", ARRIVES_S)
    eventually(
        lambda: any("Retrying after response" in line for line in scene.agent.warnings()),
        "the warning that the runbook looks for",
        ARRIVES_S,
    )
    scene.store.control(deny=0)
    eventually(scene.complete, "every line", ARRIVES_S)
    scene.assert_nothing_is_missing()


def test_lines_that_the_store_lost_are_counted(scene: Scene) -> None:
    """Batches that are acknowledged and not stored: the bytes between what came before and after are missing."""
    scene.agent.start()
    scene.writer.write(500)
    eventually(scene.complete, "the first lines", ARRIVES_S)
    begin = scene.writer.log.stat().st_size
    scene.store.control(forget=FOR_EVER)
    scene.writer.write(200)
    end = scene.writer.log.stat().st_size
    eventually(lambda: scene.store.control()["lines_forgotten"] >= 200, "the lines to be forgotten", ARRIVES_S)
    scene.agent.stop()
    scene.store.control(forget=0)
    scene.agent.start()
    scene.writer.write(300)
    eventually(lambda: len(scene.stored()) == 800, "the last lines", ARRIVES_S)
    (gap,) = scene.store.ask("SELECT begin, end, bytes, lines FROM line_gaps")
    assert (gap["begin"], gap["end"], gap["bytes"]) == (begin, end, end - begin)
    assert gap["lines"] == pytest.approx(200, rel=0.02)  # bytes are exact, lines are bytes over the mean length
    (row,) = scene.store.ask("SELECT missing, outstanding FROM reconciliation WHERE missing > 0")
    assert row == {"missing": gap["lines"], "outstanding": gap["lines"]}

"""One fault at a time under a steady flow of lines: lines written = rows + dead letters, or the loss is stated.

docs/reference/faults.md has a row for each fault; its figures are compared with those of the run. The numbers of lines
that arrived twice depend on the run: ``pytest -o junit_family=xunit1 --junitxml=FILE`` records them as properties.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from clickhouse_http import StandIn
from collector_support import eventually
from shipping_run import ARRIVES_S, EVERY, FOR_EVER, Scene

# The path comes first.
from split_support import differences, without_duplicates
from vector_run import vector_program

pytest.importorskip("chdb")

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "faults.md"
PHASE = 500  # lines written before, after and during each step of a fault
QUICK = 1000  # lines/s, where there is no fault
BETWEEN = 100  # lines written between the copy and the cut of copytruncate


def no_fault(scene: Scene) -> None:
    with scene.writer.flowing(PHASE):
        pass


def store_refuses(scene: Scene) -> None:
    """503 for each batch, until the agent has tried three times."""
    before = scene.store.control(refuse=FOR_EVER)["refused"]
    with scene.writer.flowing(PHASE):
        eventually(lambda: scene.store.control()["refused"] > before + 2, "refused batches", ARRIVES_S)
    scene.store.control(refuse=0)


def store_killed(scene: Scene) -> None:
    """kill -9 in the flow; a new process at the same address, after the agent has failed to connect."""
    with scene.writer.flowing(PHASE):
        arrive(scene)
        scene.store.kill()
        eventually(lambda: any("Connection refused" in line for line in scene.agent.warnings()), "errors", ARRIVES_S)
    scene.store.start()


def answers_lost(scene: Scene) -> None:
    """Batches are stored and answered by 503, until lines have come twice."""
    with scene.writer.flowing(PHASE):
        scene.store.control(lose=FOR_EVER)
        eventually(lambda: scene.delivered() > scene.distinct(), "lines to arrive twice", ARRIVES_S)
    scene.store.control(lose=0)


def shipper_killed_twice(scene: Scene) -> None:
    for _ in range(2):
        with scene.writer.flowing(PHASE):
            arrive(scene)
            scene.agent.kill()
        scene.agent.start()


def shipper_restarted(scene: Scene) -> None:
    with scene.writer.flowing(PHASE):
        arrive(scene)
        scene.agent.stop()
    scene.agent.start()


def renamed(scene: Scene) -> None:
    for _ in range(2):
        with scene.writer.flowing(PHASE):
            arrive(scene)
            scene.writer.rename()


def renamed_while_killed(scene: Scene) -> None:
    with scene.writer.flowing(PHASE):
        arrive(scene)
        scene.agent.kill()
        scene.writer.rename()
    scene.agent.start()


def copied_and_truncated(scene: Scene) -> None:
    for _ in range(2):
        with scene.writer.flowing(PHASE):
            arrive(scene)
            scene.writer.copy_and_truncate()


def all_in_turn(scene: Scene) -> None:
    for fault in (
        store_refuses, store_killed, shipper_killed_twice, renamed, copied_and_truncated, answers_lost,
        renamed_while_killed, shipper_restarted,
    ):  # fmt: skip
        fault(scene)


def arrive(scene: Scene) -> None:
    """Wait until lines arrive."""
    before = scene.distinct()
    eventually(lambda: scene.distinct() > before + 20, "lines to arrive", ARRIVES_S)


# By its name on the page.
LOSSLESS = {
    "none": no_fault,
    "the store answers 503": store_refuses,
    "the store is killed and started again": store_killed,
    "the store keeps batches, but its answers are lost": answers_lost,
    "Vector is killed, twice": shipper_killed_twice,
    "Vector is restarted": shipper_restarted,
    "rotation by renaming, twice": renamed,
    "rotation by renaming while Vector is down": renamed_while_killed,
    "copytruncate, twice, no line between copy and cut": copied_and_truncated,
}
# The run of all of them includes the others.
ORDINARY = (no_fault, answers_lost)


@pytest.fixture
def scene(tmp_path: Path, store_in: Callable[[Path], StandIn]) -> Iterator[Scene]:
    vector_program()  # or there is nothing to prepare
    with store_in(tmp_path) as store:
        scene = Scene(tmp_path, store, 10_000)
        try:
            yield scene
        finally:
            scene.close()


Run = Callable[..., dict[str, int]]


@pytest.fixture
def run(scene: Scene, record_property: Callable[[str, object], None]) -> Run:
    """Lines before, during and after a fault; returns the figures, which are those of the page."""

    def run(name: str, fault: Callable[[Scene], None], alone_after: int = 0) -> dict[str, int]:
        scene.agent.start()
        with scene.writer.flowing(PHASE, QUICK):
            arrive(scene)
        fault(scene)
        for count in (alone_after, PHASE - alone_after):
            with scene.writer.flowing(count, QUICK):
                pass
            eventually(scene.complete, "every line", ARRIVES_S)
        scene.agent.stop()  # nothing arrives after this
        figures = {
            "written": scene.writer.written,
            "rows": scene.figure("count()", "requests FINAL"),
            "dead_letters": scene.figure("count()", "dead_letters FINAL"),
            "again": scene.delivered() - scene.distinct(),
            "outstanding": scene.figure("max(outstanding)", "reconciliation"),
            "missing_bytes": scene.figure("sum(missing_bytes)", "reconciliation"),
        }
        for key, value in figures.items():
            record_property(key, value)
        assert on_page(name) == {key: figures[key] for key in ("written", "rows", "dead_letters", "outstanding")}
        return figures

    return run


def on_page(name: str) -> dict[str, int]:
    """The figures of a fault on the page that do not depend on the run."""
    (row,) = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith(f"| {name} |")]
    written, rows, dead_letters, _, outstanding = row.replace(",", "").rsplit("|", 6)[1:6]
    cells = {"written": written, "rows": rows, "dead_letters": dead_letters, "outstanding": outstanding}
    return {key: int(cell) for key, cell in cells.items()}


def split(*sources: str) -> dict[str, Any]:
    """The JSON of ``sojourn split``."""
    command = [sys.executable, "-m", "sojourn", "--no-config", "split", *sources, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return without_duplicates(json.loads(done.stdout))


def assert_same_split(scene: Scene) -> None:
    """``sojourn split`` of the files the agent read, and of the store."""
    of_the_files = split(str(scene.writer.log) + "*")
    assert of_the_files["requests"] == len(scene.writer.good)
    assert list(differences(of_the_files, split(scene.store.dsn()))) == []


def assert_nothing_is_lost(scene: Scene, figures: dict[str, int]) -> None:
    """Lines written = distinct rows + dead letters, and no byte of the log is missing."""
    assert figures["dead_letters"] > 10
    assert figures["written"] == figures["rows"] + figures["dead_letters"]
    assert figures["outstanding"] == figures["missing_bytes"] == 0
    scene.assert_nothing_is_missing()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.thorough] * (LOSSLESS[name] not in ORDINARY)) for name in LOSSLESS]
)
def test_every_line_is_a_row_or_a_dead_letter(scene: Scene, run: Run, name: str) -> None:
    fault = LOSSLESS[name]
    figures = run(name, fault)
    assert_nothing_is_lost(scene, figures)
    if fault in (no_fault, store_refuses):
        assert figures["again"] == 0
    if fault is answers_lost:
        assert figures["again"] > 0


@pytest.mark.thorough
def test_split_of_the_files_is_split_of_the_store_after_all_faults(scene: Scene, run: Run) -> None:
    figures = run("all of these in turn", all_in_turn)
    assert_nothing_is_lost(scene, figures)
    assert figures["again"] > 0
    assert_same_split(scene)


def test_lines_between_copy_and_cut_are_lost_if_they_were_not_read(scene: Scene, run: Run) -> None:
    """Neither the copy nor the log has them. They are the end of a file, so reconciliation does not show them."""

    def fault(scene: Scene) -> None:
        scene.agent.kill()
        scene.writer.copy()
        with scene.writer.losing(), scene.writer.flowing(BETWEEN):
            pass
        scene.writer.truncate()
        scene.agent.start()

    figures = run("copytruncate while Vector is down, 100 lines between copy and cut", fault)
    assert figures["written"] == figures["rows"] + figures["dead_letters"] + BETWEEN
    scene.assert_nothing_is_missing()
    assert_same_split(scene)


@pytest.mark.thorough
def test_lines_between_copy_and_cut_are_kept_if_they_were_read(scene: Scene, run: Run) -> None:
    def fault(scene: Scene) -> None:
        scene.writer.copy()
        with scene.writer.flowing(BETWEEN):
            pass
        eventually(scene.complete, "every line", ARRIVES_S)
        scene.writer.truncate()

    figures = run("copytruncate, 100 lines between copy and cut, which Vector has read", fault)
    assert_nothing_is_lost(scene, figures)
    assert split(str(scene.writer.log) + "*")["requests"] < split(scene.store.dsn())["requests"] == figures["rows"]


def test_lines_that_the_store_acknowledges_and_loses_are_outstanding(scene: Scene, run: Run) -> None:
    missing_bytes = 0

    def fault(scene: Scene) -> None:
        nonlocal missing_bytes
        eventually(scene.complete, "the lines before", ARRIVES_S)
        missing_bytes -= scene.writer.log.stat().st_size
        scene.store.control(forget=FOR_EVER)
        with scene.writer.losing(), scene.writer.flowing(PHASE):
            pass
        missing_bytes += scene.writer.log.stat().st_size
        eventually(lambda: scene.store.control()["lines_forgotten"] >= PHASE, "lines to be forgotten", ARRIVES_S)
        scene.store.control(forget=0)

    # The store measures a gap by the time of the records that arrive with the first line after it. A bad line among
    # them may have any time: the first lines arrive before the next bad one is written.
    figures = run("the store acknowledges 500 lines and does not keep them", fault, alone_after=EVERY // 2)
    assert figures["written"] == figures["rows"] + figures["dead_letters"] + PHASE
    scene.assert_rows_and_dead_letters()
    assert figures["missing_bytes"] == missing_bytes

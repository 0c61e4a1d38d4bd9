"""The script that sets up the usual stacks and asks Sojourn about each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from lab_support import groups_of
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.servers.table import SERVERS, why_server_unavailable
from studies.stacks import __main__ as stacks_main
from studies.stacks.__main__ import main, text_of
from studies.stacks.stack import STACKS

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=str(Nginx.why_unavailable())),
]
SMALL = ("--requests", "100", "--clients", "4", "--service", "0.005")


def stacks(folder: Path, *arguments: str, path: str | None = None, deadline: float = 200.0) -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "studies.stacks",
        *arguments,
        "--json",
        "--out",
        str(folder / "out"),
    ]
    environment = {**os.environ, "PATH": path or os.environ["PATH"]}
    done = subprocess.run(command, capture_output=True, text=True, timeout=deadline, check=False, env=environment)
    assert "Traceback" not in done.stderr
    assert done.stdout, done.stderr
    assert groups_of(folder) == set()
    rows: dict[str, Any] = json.loads(done.stdout)["stacks"]
    assert done.returncode == (1 if any("failed_to_run" in row for row in rows.values()) else 0)
    return rows


def needs(*names: str) -> None:
    for name in names:
        if (reason := why_server_unavailable(STACKS[name].server)) is not None:
            pytest.skip(reason)


def test_two_stacks_are_measured_and_judged(tmp_path: Path) -> None:
    needs("php-fpm", "puma")
    rows = stacks(tmp_path, "php-fpm", "puma", *SMALL)
    assert list(rows) == ["php-fpm", "puma"]
    for row in rows.values():
        assert (row["requests"], row["failed"], row["app_known"]) == (100, 0, 1.0)
        assert row["rate"] > 10.0
        assert 0.0 < row["queueing_share"] < 1.0
        assert row["sentence"]
        assert row["blame"]["waited"] > 0.0
        assert row["whatif"]["accepted"] is (row["whatif"]["refused"] is None)
        assert "stamp-missing" not in [each["code"] for each in row["findings"]]
    # The README's include of each directive leaves nothing for the doctor.
    assert rows["php-fpm"]["followed"] == []
    assert rows["puma"]["followed"] == []
    assert len((tmp_path / "out" / "puma" / "access.jsonl").read_text().splitlines()) == 100


@pytest.mark.thorough
def test_without_stamps_the_service_time_is_left(tmp_path: Path) -> None:
    needs("php-fpm")
    row = stacks(tmp_path, "php-fpm", "--without-stamps", *SMALL)["php-fpm"]
    logged = [json.loads(line) for line in (tmp_path / "out" / "php-fpm" / "access.jsonl").read_text().splitlines()]
    assert {each["queueing_delay"] for each in logged} == {""}
    assert all(float(each["service_time"]) >= 0.005 for each in logged)
    assert "stamp-missing" in [each["code"] for each in row["findings"]]


@pytest.mark.thorough
@pytest.mark.parametrize(("variant", "share"), [("--half-silent", 0.5), ("--silent", 0.0)])
def test_backends_without_middleware_are_silent(tmp_path: Path, variant: str, share: float) -> None:
    needs("php-fpm")
    row = stacks(tmp_path, "php-fpm", variant, *SMALL)["php-fpm"]
    assert row["app_known"] == pytest.approx(share, abs=0.1)
    assert "app-silent" in [each["code"] for each in row["findings"]]


def test_a_missing_server_is_named_and_skipped(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "bin")
    rows = stacks(tmp_path, "puma", "node", *SMALL, path=nowhere)
    assert rows == {"puma": {"skipped": "puma is not installed"}, "node": {"skipped": "node is not installed"}}
    assert "skipped" in text_of(rows)
    assert "puma: puma is not installed" in text_of(rows)


REFUSED = {
    "requests": 100, "failed": 0, "rate": 50.0, "p99": 0.2, "queueing_share": None, "unattributed_share": None,
    "app_known": 0.0, "cause": None, "sentence": "Nothing is known of the apps.", "notes": [], "findings": [],
    "blame": {"waited": None, "complaint": "sojourn: no request says how long it waited"},
    "whatif": {"accepted": False, "refused": "sojourn: no service times"},
}  # fmt: skip


def test_refusals_of_blame_and_whatif_are_in_the_text() -> None:
    text = text_of({"puma": REFUSED})
    assert "  blame: sojourn: no request says how long it waited" in text.splitlines()
    assert "  whatif: refused: sojourn: no service times" in text.splitlines()


def test_folder_that_cannot_be_made_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["puma", "--out", str(tmp_path / "file" / "stacks")]) == 1
    assert capsys.readouterr().err == f"stacks: {tmp_path / 'file' / 'stacks'}: Not a directory\n"


def test_stack_that_is_named_twice_is_set_up_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows: list[str] = []
    monkeypatch.setattr(stacks_main, "_row", lambda name, *_: rows.append(name) or {"skipped": "not started"})
    assert main(["puma", "node", "puma", "--out", str(tmp_path / "out")]) == 0
    assert rows == ["puma", "node"]
    assert "puma: not started" in capsys.readouterr().out


def test_wrong_usage_makes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, complaint in (
        (["apache"], "'apache' is none of"),
        (["--requests", "0"], "1 to 100000 requests"),
        (["--out", str(tmp_path)], "name a new folder"),
        (["--silent", "--half-silent"], "not allowed with"),
    ):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == 2
        assert complaint in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.scenario
@pytest.mark.timeout(900)
def test_all_seven_stacks(tmp_path: Path) -> None:
    rows = stacks(tmp_path, deadline=800.0)
    assert list(rows) == list(STACKS)
    for name, row in rows.items():
        if "skipped" in row:
            assert row["skipped"] == SERVERS[STACKS[name].server].missing()
            continue
        assert (row["requests"], row["failed"], row["app_known"]) == (2000, 0, 1.0), name
        assert row["unattributed_share"] < 0.01, name
        assert row["cause"] in ("queueing", "mixed"), name
        assert not [each for each in row["findings"] if each["severity"] == "error"], name

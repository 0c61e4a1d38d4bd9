"""A full disk: while a result is written, while much is read, while a store is filled, while nginx logs."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

import pytest
import typer
from small_disk import run_on_small_disk, why_no_disk
from sojourn_lab.cli import common as cli_parts
from sojourn_lab.measure.listen import ListenSampler
from sojourn_lab.results.run_folder import RunFolder
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.scenario.files import scenario_from_file, shipped_scenario_paths

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs/examples"
FULL = "No space left on device"

pytestmark = pytest.mark.skipif(why_no_disk() is not None, reason=why_no_disk() or "")

OUTPUTS = {
    "kernel.html": ["kernel", "kernel.jsonl.gz", "--html"],
    "split.parquet": ["split", "shop.jsonl.gz", "--parquet"],
    "split.rejects": ["split", "BAD", "six-requests.jsonl.gz", "--rejects"],
    "plot.json": ["plot", "shop.jsonl.gz", "ccdf", "--out"],
    "movie.html": ["movie", "six-requests.jsonl.gz", "--out"],
    "a.pftrace": ["timeline", "shop.jsonl.gz", "--force", "--out"],
    "wire.parquet": ["pcap", "wire.pcap.gz", "--parquet"],
}


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each command says that writes to a full disk: once where nothing is, once over a file that is there."""
    folder = tmp_path_factory.mktemp("full")
    bad = folder / "bad.jsonl"
    bad.write_bytes(b'{"time":"x"\n' * 3_000)
    commands = {
        name: [str(bad) if each == "BAD" else str(EXAMPLES / each) if ".gz" in each else each for each in arguments]
        for name, arguments in OUTPUTS.items()
    }
    script = f"""
from sojourn.present.page import Page
Page.text = lambda *_: "x" * 100_000  # drawing is slow, and not tested here
results = {{}}
for name, arguments in {commands!r}.items():
    (disk / name).write_text("previous")
    results[name] = ended(*arguments, disk / name)
    results[name]["old"] = (disk / name).read_text()
    (disk / name).unlink()
import tempfile
from sojourn.readers import spool
spool.rows_in_memory = lambda _: 100
tempfile.tempdir = str(disk)
results["much"] = ended("split", {str(EXAMPLES / "shop.jsonl.gz")!r})
tempfile.tempdir = str(disk / "gone")
results["nowhere"] = ended("split", {str(EXAMPLES / "shop.jsonl.gz")!r})
print(json.dumps(results))
"""
    reported: dict[str, Any] = run_on_small_disk(script, folder, 16)
    return reported


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_result_that_does_not_fit_is_not_there(full: dict[str, Any], name: str) -> None:
    """The file and the reason are named; nothing half is left, and what was there before is as it was."""
    result = full[name]
    assert result["code"] == 1
    assert result["said"].startswith("sojourn: ")
    assert result["said"].rstrip().endswith(f"/disk/{name}: cannot be written ({FULL})")
    assert result["left"] == [name]
    assert result["old"] == "previous"


def test_a_temporary_folder_that_is_full_or_gone_is_named(full: dict[str, Any]) -> None:
    assert full["much"]["code"] == full["nowhere"]["code"] == 1
    assert "cannot write the rows to " in full["much"]["said"]
    assert f"({FULL}); set TMPDIR to another folder" in full["much"]["said"]
    assert full["much"]["left"] == []
    assert "cannot write the rows to a temporary folder (No such file or directory)" in full["nowhere"]["said"]


def test_a_store_without_room_is_completed_by_loading_again(tmp_path: Path) -> None:
    pytest.importorskip("chdb")
    script = f"""
sys.path.insert(0, {str(ROOT / "tests/store")!r})
from store_support import one, record, write_log
log = write_log(folder / "a.jsonl", *(record(n) for n in range(2_000)))
dsn = f"chdb://{{disk}}/store"
assert ended("store", "init", dsn)["code"] == 0
sized(sum(each.stat().st_blocks for each in disk.rglob("*")) // 2 + 300)
before = ended("store", "load", dsn, log)
there = one(dsn, "SELECT count() FROM requests FINAL")
sized(100_000)
after = ended("store", "load", dsn, log)
whole = [one(dsn, "SELECT count() FROM requests FINAL"), one(dsn, "SELECT sum(requests) FROM rollup_minute FINAL")]
print(json.dumps({{"before": before, "there": there, "after": after, "whole": whole}}))
"""
    reported = run_on_small_disk(script, tmp_path, 100_000)
    assert reported["before"]["code"] == 1
    assert "loading again is safe" in reported["before"]["said"]
    assert "not enough space" in reported["before"]["said"]
    assert len(reported["before"]["said"].splitlines()) == 1
    assert reported["there"] in (0, 2_000)
    assert reported["after"]["code"] == 0, reported["after"]["said"]
    assert reported["whole"] == [2_000, 2_000]


def test_spans_that_do_not_fit_spoil_no_others(tmp_path: Path) -> None:
    """The app's middleware writes a line a span; one that is torn ends where it was torn."""
    script = """
from sojourn_middleware.spanfile import AppendingStream
stream = AppendingStream(str(disk / "spans.jsonl"))
filler = disk / "filler"
filler.write_bytes(bytes(8 << 10))
line = json.dumps({"span": "x" * 300}) + "\\n"
for _ in range(40):
    stream.write(line)
filler.unlink()
for _ in range(5):
    stream.write(line)
print(json.dumps([each == line.strip() for each in (disk / "spans.jsonl").read_text().splitlines()]))
"""
    reported = run_on_small_disk(script, tmp_path, 16)
    assert 5 < sum(reported) < 45
    assert all(reported[-4:])
    assert reported.count(False) <= 2


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="needs /dev/full")
def test_a_sampler_of_queues_that_cannot_write_says_so_and_ends() -> None:
    with ListenSampler(Path("/dev/full"), {"silent": 1}, 0.01, keep=True) as sampler:
        deadline = time.monotonic() + 60
        while sampler.failed is None and time.monotonic() < deadline:
            with socket.create_server(("127.0.0.1", 0)) as listener:
                sampler._ports["silent"] = listener.getsockname()[1]
                time.sleep(0.02)
    assert sampler.failed == f"full: {FULL}"


def test_a_run_whose_folder_is_full_names_what_could_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, FULL, str(tmp_path / "run.partial/run.json"))

    monkeypatch.setattr(cli_parts, "finished_run", full)
    folder = RunFolder.claimed(tmp_path / "run")
    with pytest.raises(typer.Exit) as end:
        cli_parts.run_in_good_order(scenario_from_file(shipped_scenario_paths()[0]), 1.0, folder, quiet=True)
    assert end.value.exit_code == 1
    output = capfd.readouterr().err
    assert output.startswith(f"sojourn lab: {tmp_path}/run.partial/run.json: {FULL}\neverything is down")
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=Nginx.why_unavailable() or "")
def test_nginx_answers_on_and_what_its_log_lacks_is_said(tmp_path: Path) -> None:
    """Requests are lost to the log as long as there is no room, one more with the torn line, and none after it."""
    script = f"""
import re, time
sys.path[:0] = [{str(ROOT / "tests/nginx")!r}]
import sojourn
from nginx_support import LOCATION, app_upstream, get
from nginx_upstream import Upstream
from sojourn_lab.runtime.server_faults import _of_nginx
from sojourn_lab.runtime.nginx import Nginx
app = Upstream()
log = disk / "access.jsonl"
with Nginx(folder / "nginx", LOCATION, access_log=log, http=app_upstream(app.address)) as nginx:
    (disk / "filler").write_bytes(bytes(32 << 10))
    codes = [get(nginx, f"/{{n}}").status for n in range(60)]
    (disk / "filler").unlink()
    time.sleep(1.1)  # nginx does not try again within a second
    codes += [get(nginx, f"/{{n}}").status for n in range(60, 75)]
app.close()
rows = sojourn.read(log, columns=["uri"])
print(json.dumps({{
    "codes": codes, "uris": rows.rows.collect()["uri"].to_list(), "read": rows.records.read,
    "reasons": rows.records.reasons, "said": _of_nginx(nginx.error_log_text()),
}}))
"""
    reported = run_on_small_disk(script, tmp_path, 64)
    assert set(reported["codes"]) == {200}
    numbers = [int(uri.removeprefix("/")) for uri in reported["uris"]]
    assert numbers == sorted(set(numbers)), "nothing twice"
    before = [n for n in numbers if n < 60]
    assert before == list(range(len(before))), "all until it was full"
    assert 10 < len(before) < 60
    assert [n for n in numbers if n >= 60] in (list(range(60, 75)), list(range(61, 75)))
    assert sum(reported["reasons"].values()) <= 1
    assert len(reported["said"]) == 1
    assert reported["said"][0].startswith("nginx: access.jsonl lacks requests")

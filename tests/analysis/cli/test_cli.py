"""The command as its users run it: exit codes, streams, JSON, hostile logs, no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from analysis_support import BASE, line
from sojourn.cli import main

HOSTILE = "[red]<script>alert(1)</script>\x1b]0;owned\x07\x1b[31m\u202e${jndi}{{7*7}}'--;=cmd|' /C calc'!A0"


def sojourn(*arguments: object, stdin: bytes = b"", **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sojourn", *map(str, arguments)],
        input=stdin.decode("utf-8", "surrogateescape"),
        capture_output=True,
        text=True,
        errors="surrogateescape",
        env={**os.environ, "COLUMNS": "160", **env},
        check=False,
        timeout=60,
    )


@pytest.fixture
def log(tmp_path: Path) -> Path:
    fields = {"upstream_connect_time": "0.000", "upstream_header_time": "0.9", "upstream_response_time": "0.9"}
    rows = (
        line(
            time=f"{BASE + i}.000", request_time="0.900", request_start=f"{BASE + i - 1}.100", upstream_addr="a:80",
            queueing_delay="0.700000" if i else "0.000000", service_time="0.200000" if i else "0.900000",
            worker="1", route=f"/r{i % 3}", **fields,
        )
        for i in range(50)
    )  # fmt: skip
    path = tmp_path / "access.jsonl"
    path.write_bytes(b"".join(rows) + b"bad\n")
    return path


def test_the_table_opens_with_the_verdict(log: Path) -> None:
    done = sojourn("split", log)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0].startswith("It is a queue, not the code")
    assert "1 of 51 lines refused: invalid_json 1" in done.stdout
    assert "queueing delay" in done.stdout


def test_json_is_one_object_on_stdout(log: Path) -> None:
    done = sojourn("split", log, "--json", "--by", "worker,status")
    document = json.loads(done.stdout)
    assert document["verdict"]["cause"] == "queueing"
    assert set(document["by"]) == {"worker", "status"}
    assert document["records"]["reasons"] == {"invalid_json": 1}


def test_standard_input(log: Path) -> None:
    done = sojourn("split", "-", "--json", stdin=log.read_bytes())
    assert json.loads(done.stdout)["requests"] == 50


def test_requested_files_are_written(log: Path, tmp_path: Path) -> None:
    html, parquet, rejects = tmp_path / "r.html", tmp_path / "r.parquet", tmp_path / "bad.jsonl"
    done = sojourn("split", log, "--html", html, "--parquet", parquet, "--rejects", rejects)
    assert done.returncode == 0, done.stderr
    assert html.stat().st_size > 100_000
    assert json.loads(rejects.read_text()) == {"source": str(log), "line": 51, "reason": "invalid_json", "raw": "bad"}
    assert json.loads(sojourn("split", parquet, "--json").stdout)["requests"] == 50


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["split"], 2, "Missing argument"),
        (["split", "LOG", "--by", "colour"], 2, "not one of route"),
        (["split", "LOG", "--since", "whenever"], 2, "not an instant"),
        (["split", "LOG", "--where", "route"], 2, "not COLUMN=VALUE"),
        (["split", "LOG", "--where", "status=abc"], 2, "status must be a number"),
        (["split", "LOG", "--where", "attempts=few"], 2, "attempts must be a number"),
        (["split", "LOG", "--where", "app_garbled=yes"], 2, "app_garbled cannot be selected"),
        (["split", "LOG", "--where", "time=now"], 2, "not an instant"),
        (["split", "LOG", "--since", "2026-01-01T00:00:10"], 2, "2026-01-01T00:00:10Z for UTC"),
        (["split", "LOG", "--where", "attempts=2"], 1, "no request is left"),
        (["split", "LOG", "--slo", "-1"], 2, "--slo"),
        (["split", "LOG", "--html", "/"], 1, "it is a directory"),
        (["split", "LOG", "--html", "/dev/null/x.html"], 1, "Not a directory"),
        (["split", "LOG", "--parquet", "."], 1, "it is a directory"),
        (["nonsense"], 2, "No such command"),
        (["split", "LOG", "--where", "colour=red"], 1, "no column 'colour'"),
        (["split", "LOG", "--where", "service=none"], 1, "no request is left"),
        (["split", "/nowhere.jsonl"], 1, "no such file"),
        (["split", "LOG", "--html", "/nowhere/x.html"], 1, "/nowhere/x.html"),
        (["split", "LOG", "--parquet", "/nowhere/x.parquet"], 1, "/nowhere/x.parquet"),
        (["split", "LOG", "--rejects", "/nowhere/x"], 1, "/nowhere/x"),
        (["split", "LOG", "--spans", "/nowhere.jsonl"], 1, "no such file"),
        (["split", "/dev/null"], 1, "the sources are empty"),
    ],
)
def test_errors_are_words_on_stderr_and_the_right_code(
    log: Path,
    arguments: list[str],
    code: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """In this process: what a command takes to start is no part of it."""
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(sys, "argv", ["sojourn", *[str(log) if a == "LOG" else a for a in arguments]])
    with pytest.raises(SystemExit) as ended:
        main()
    stdout, stderr = capfd.readouterr()
    assert ended.value.code == code
    assert words in stderr.replace("\n", " ")
    assert "Traceback" not in stderr + stdout


def test_only_bad_lines_is_a_failure_that_says_why(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"bad\n{}\n")
    done = sojourn("split", tmp_path / "a.jsonl", "--json")
    assert done.returncode == 1
    assert "2 lines read, 2 refused (invalid_json 1, missing_time 1)" in done.stderr
    assert "sojourn doctor" in done.stderr
    assert json.loads(done.stdout)["records"]["rejected"] == 2


def test_since_and_until(log: Path) -> None:
    done = sojourn("split", log, "--json", "--since", "2026-01-01T00:00:10Z", "--until", str(BASE + 20))
    assert json.loads(done.stdout)["requests"] == 10


def test_a_reader_that_goes_away_is_no_error(log: Path) -> None:
    command = f"{sys.executable} -m sojourn split {log} --json | head -c 10"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == ""


def test_hostile_text_is_shown_not_obeyed(tmp_path: Path) -> None:
    log = tmp_path / "h.jsonl"
    log.write_bytes(line(route=HOSTILE, worker=HOSTILE, service=HOSTILE, uri=HOSTILE) * 3 + HOSTILE.encode() + b"\n")
    done = sojourn("split", log, "--by", "route", "--by", "worker", "--by", "service")
    assert done.returncode == 0, done.stderr
    assert not set(done.stdout) & {"\x1b", "\x07", "\u202e"}
    assert "<script>" in done.stdout
    assert "[red]" in done.stdout


def test_a_hostile_file_name_is_shown_not_obeyed(tmp_path: Path) -> None:
    (tmp_path / "\x1b[31m.parquet").write_bytes(b"PAR1 but no more")
    done = sojourn("split", tmp_path / "*.parquet")
    assert done.returncode == 1
    assert "\\x1b[31m.parquet: not a readable Parquet file" in done.stderr
    assert "\x1b" not in done.stderr


def test_help_lists_the_verbs_and_every_option_is_explained() -> None:
    assert "split" in sojourn("--help").stdout
    text = sojourn("split", "--help").stdout
    for option in ("--spans", "--by", "--since", "--until", "--html", "--parquet", "--json"):
        assert option in text


def test_version_names_the_engines() -> None:
    text = sojourn("--version").stdout
    assert "polars" in text
    assert "duckdb" in text


def test_help_loads_neither_polars_nor_duckdb() -> None:
    code = (
        "import sys; sys.argv = ['sojourn', '--help']\n"
        "from sojourn.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print(sorted({'polars', 'duckdb', 'altair', 'scipy'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr.strip() == "[]"


def test_a_plugin_of_another_distribution_is_listed_and_run(tmp_path: Path) -> None:
    (tmp_path / "other_verbs.py").write_text(
        '"""Say something else."""\nimport typer\napp = typer.Typer()\n'
        '@app.command()\ndef say() -> None:\n    """Say it."""\n    print("said")\n'
        "@app.callback()\ndef all_() -> None: ...\n"
    )
    information = tmp_path / "other-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(
        "[console_scripts]\nother = other_verbs:app\n\n[sojourn.commands]\n# a comment\nother = other_verbs:app\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}:{tmp_path}"}
    for arguments, words in ((["--help"], "other Say something else."), (["other", "say"], "said")):
        done = subprocess.run(
            [sys.executable, "-m", "sojourn", *arguments],
            capture_output=True, text=True, check=True, timeout=60, env=environment,
        )  # fmt: skip
        assert words in " ".join(done.stdout.split())


def test_a_split_without_options_loads_no_heavy_library() -> None:
    code = (
        "import sys; sys.argv = ['sojourn', 'split', 'docs/examples/shop.jsonl.gz']\n"
        "from sojourn.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "heavy = {'altair', 'scipy', 'pyarrow', 'jinja2', 'textual', 'PIL', 'sojourn_lab'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        cwd=Path(__file__).parents[3],
    )
    assert done.stdout.splitlines()[-1] == "[]"

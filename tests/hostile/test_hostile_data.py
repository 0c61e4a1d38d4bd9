"""Data that would take the machine with it, or have it run something: bombs, depth, code in a document."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile_files import ran
from sojourn.sources.requests import read

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
LINE = (
    json.dumps(
        {"time": "1767225600.100", "request_time": "0.100", "status": "200", "request_start": "-", "uri": "/"}
    ).encode()
    + b"\n"
)
DEEP = 100_000


def _gzip(chunks: Iterator[bytes]) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join(packer.compress(chunk) for chunk in chunks) + packer.flush()


# --- bombs: what is in a few kilobytes, bounded in memory and proportional in time


@pytest.mark.parametrize(
    ("chunk", "times", "reasons"),
    [
        pytest.param(b"x" * MIB, 64, {"line_too_long": 1}, id="one line of 64 MB"),
        pytest.param(b"\n" * MIB, 1, {"empty_line": MIB}, id="a million line ends"),
        pytest.param(b"no JSON at all\n" * 20_000, 10, {"invalid_json": 200_000}, id="lines of another format"),
        pytest.param(b"[" * (MIB - 1) + b"\n", 4, {"invalid_json": 4}, id="a million brackets"),
        pytest.param(b'{"time":' * 100_000 + b"1" + b"}" * 100_000 + b"\n", 4, None, id="a thousand thousands deep"),
        pytest.param(
            b"{" + b",".join(b'"k%d":1' % i for i in range(70_000)) + b"}\n", 2, {"missing_time": 2}, id="keys"
        ),
    ],
)
def test_a_bomb_costs_no_request(tmp_path: Path, chunk: bytes, times: int, reasons: dict[str, int] | None) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(_gzip(iter([chunk] * times)) + _gzip(iter([b"\n" if times == 64 else b"", LINE * 3])))
    result = read(path)
    if reasons is not None:
        assert result.records.reasons == reasons
    assert result.records.accepted == 3
    assert len(result.records.rejects) <= 1_000


def test_a_bomb_s_memory_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(_gzip(iter([b"\n" * MIB] * 2 + [b"x" * MIB] * 200)))
    code = (
        "import re, sys; from pathlib import Path; from sojourn.sources.requests import read; "
        "requests = read(sys.argv[1]).records; "
        "print(requests.rejected, re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1])"
    )
    process = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True, timeout=200
    )
    rejected, kilobytes = map(int, process.stdout.split())
    assert rejected == 2 * MIB + 1
    assert kilobytes < 1_000_000


# --- depth


def test_brackets_by_the_thousand_in_spans_cost_only_their_line(tmp_path: Path) -> None:
    log, spans = tmp_path / "a.jsonl", tmp_path / "spans.jsonl"
    log.write_bytes(LINE * 3)
    nested = '{"values":[{"arrayValue":' * 5_000 + "1" + "}]}" * 5_000
    few = '{"values":[{"arrayValue":' * 60 + "{}" + "}]}" * 60
    attribute = (
        '{"resourceSpans":[{"resource":{"attributes":[{"key":"a","value":{"arrayValue":%s}}]},"scopeSpans":[]}]}\n'
    )
    spans.write_text(
        attribute % nested + attribute % few + '{"x":' + "[" * DEEP + "]" * DEEP + "}\n" + "[" * DEEP + "\n"
    )
    done = ran("split", log, "--spans", spans)
    assert (done.code, done.err) == (0, "")
    assert ran("tiers", spans).err.startswith("sojourn: no span")


@pytest.mark.parametrize(
    "text",
    ["[split]\nby = " + "[" * 5_000, "[split]\nslo = " + "9" * 100_000, "a." * 5_000 + "b = 1", "\x00", "a = 1\na = 2"],
    ids=["deep", "long", "dotted", "NUL", "twice"],
)
def test_a_hostile_toml_file_is_refused_in_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.toml"
    path.write_text(text)
    for arguments in (("--config", path, "config"), ("lab", "run", path), ("lab", "playbook", path)):
        done = ran(*arguments)
        assert done.code in (1, 2), arguments
        first, *others = done.err.splitlines()
        assert first.startswith("sojourn"), arguments
        assert all(line.startswith("  ") for line in others), arguments  # all errors of a scenario come at once
        assert "fault of sojourn's own" not in done.err, arguments


# --- code in data


SHIPPED = [
    file
    for folder in (
        "analysis/sojourn",
        "lab/sojourn_lab",
        "lab/backend",
        "collector/middleware/python/src",
        "dashboards",
    )
    for file in sorted((ROOT / folder).rglob("*.py"))
]


@pytest.mark.parametrize("folder", ["analysis/sojourn", "lab", "collector", "dashboards"])
def test_text_that_is_read_is_never_compiled(folder: str) -> None:
    """What ruff has no rule for; the rest (eval, exec, pickle, a shell) is a rule of the linter."""
    calls = []
    for file in (each for each in SHIPPED if each.is_relative_to(ROOT / folder)):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                builtin = isinstance(node.func, ast.Name) and name in ("compile", "__import__")
                if builtin or name == "from_string":
                    calls.append((file.name, name))
    assert calls == []


def test_templates_escape_and_no_input_is_a_template() -> None:
    """What is marked as safe is drawn by Vega or made by ``script_json``; there is no other."""
    safe = set()
    for file in (*ROOT.glob("analysis/sojourn/*/templates/*.html"),):
        safe |= {
            line.split("{{")[-1].split("|")[0].strip() for line in file.read_text().splitlines() if "| safe" in line
        }
    assert safe == {"figure.svg", "figure.spec", "data"}
    assert "autoescape=True" in (ROOT / "analysis/sojourn/present/templating.py").read_text()

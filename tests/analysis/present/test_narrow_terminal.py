"""Terminals of 80 columns: long names are shortened in their middle, headings and figures are whole."""

from __future__ import annotations

import gzip
import io
import re
from pathlib import Path

import pytest
import sojourn
from analysis_support import line
from rich.cells import cell_len
from rich.console import Console
from sojourn.analyses.split.page import split_part
from sojourn.cli import app
from sojourn.model.formatting import printable, shortened
from sojourn.present.fitted_table import FittedTable
from sojourn.present.page import Page
from typer.testing import CliRunner

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
SOCKETS = [f"unix:/run/applications/production/eu-central-1/checkout/instances/0001/gunicorn/{k}.sock" for k in (1, 2)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs and spans of docs/examples whose backends are Unix sockets with long names."""
    produced = tmp_path_factory.mktemp("narrow")
    for name in ("shop.jsonl", "shop-spans.jsonl", "checkout-spans.jsonl"):
        text = gzip.decompress((EXAMPLES / f"{name}.gz").read_bytes()).decode()
        for address, socket in zip(("10.0.0.1:8080", "10.0.0.2:8080"), SOCKETS, strict=True):
            text = text.replace(address, socket)
        (produced / name).write_text(text.replace('"checkout"', f'"{SOCKETS[0]}"'))
    return produced


@pytest.mark.parametrize(
    ("command", "headings"),
    [
        ("split LOG --by upstream", ["requests p50 p99 mean p99 mean p99 share"]),
        (
            "blame LOG --by upstream",
            ["seconds of blamed of all requests", "begin (UTC) lasted blamed most arrivals main culprit"],
        ),
        ("depth LOG", ["workers busy at its peak waiting on arrival most (ms)"]),
        ("clock LOG", ["clock from to offset ± ppm ppm allowed requests"]),
        ("laws LOG", ["load λ/s S ms c util. c_a² c_s² disp."]),
        ("goodput LOG --by upstream", ["upstream requests given up unknown wasted (s) worked (s) wasted"]),
        ("tiers SPANS", []),
        ("watch LOG --once --by upstream", []),
    ],
)
def test_headings_and_figures_fit_80_columns(
    command: str, headings: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    files = {"LOG": folder / "shop.jsonl", "SPANS": folder / "checkout-spans.jsonl"}
    result = CliRunner().invoke(app, [str(files.get(word, word)) for word in command.split()])
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert max(map(cell_len, lines)) <= 80
    flat = [" ".join(line.split()) for line in lines]
    for heading in headings:
        assert any(heading in line for line in flat), heading
    # What is shortened is a name: a letter of it stands on either side.
    assert not re.search(
        r"[\d,.%]…|…\d|(?<![/\w])\w+…(?=\s|$)",
        "\n".join(line for line in lines if "unix" not in line and "/" not in line),
    )
    shown = {match for line in lines for match in re.findall(r"unix:\S*\.sock", line)}
    if "LOG" in command:
        assert {name.rpartition("…")[2][-6:] for name in shown} == {"1.sock", "2.sock"}


@pytest.mark.parametrize("width", range(12))
@pytest.mark.parametrize("text", ["unix:/a/1.sock", "短い名前と長い名前", "x"])
def test_a_name_is_shortened_in_its_middle(text: str, width: int) -> None:
    produced = shortened(text, width)
    assert cell_len(produced) <= width
    if cell_len(text) <= width:
        assert produced == text
    elif width >= 5:
        assert (produced[0], produced[-1]) == (text[0], text[-1])


def test_a_long_address_keeps_its_end_and_a_sentence_its_beginning() -> None:
    assert printable(SOCKETS[0], 30).endswith("/gunicorn/1.sock"[-15:])
    assert len(printable(SOCKETS[0], 30)) == 30
    assert printable("a sentence of many words", 12) == "a sentence …"


def test_narrow_tables_break_headings_before_they_cut_names() -> None:
    table = FittedTable(("name", "mean response time"), [(SOCKETS[0], "1,234")])
    console = Console(width=30, record=True, file=io.StringIO())
    console.print(table)
    text = console.export_text()
    assert "1,234" in text
    assert "response" in text
    assert max(map(len, text.splitlines())) <= 30


def test_a_name_has_room_where_no_word_of_a_heading_has() -> None:
    table = FittedTable(("upstream", "requests", "response", "queueing", "service"), [(SOCKETS[0], *["1,234"] * 4)])
    console = Console(width=38, record=True, file=io.StringIO())
    console.print(table)
    *_, row = console.export_text().splitlines()
    assert row.split()[1:] == ["1,234"] * 4
    assert len(row.split()[0]) >= 8


@pytest.mark.parametrize("width", [30, 40, 60])
def test_a_route_is_shortened_and_takes_one_line(width: int) -> None:
    routes = [
        "shop.localhost /reports/monthly",
        "shop.localhost /api/v1/customers/:id/returns",
        "/health check/with spaces",
    ]
    table = FittedTable(("route", "mean"), [(route, "1,234") for route in routes])
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(table)
    _, *rows = console.export_text().splitlines()
    assert [row.split()[-1] for row in rows] == ["1,234"] * 3
    assert [re.sub(r"\s+1,234$", "", row)[-3:] for row in rows] == ["hly", "rns", "ces"]


def test_a_page_shortens_a_route_and_never_breaks_it(tmp_path: Path) -> None:
    route = "/api/v1/customers/:customer/orders/:order/items/:item/returns"
    log = tmp_path / "a.jsonl"
    log.write_bytes(b"".join(line(route=name, service="shop") for name in (route, "/x")))
    page = Page(split=split_part(sojourn.split(log))).text()
    cells = re.findall(r'<span class="route" title="(.*?)">(.*?)</span>', page)
    assert cells == [(route, shortened(route, 48)), ("/x", "/x")]
    assert re.search(r"\.route {[^}]*white-space: nowrap", page)

"""A log, spans, a capture and samples full of hostile text, through every command: shown everywhere, obeyed nowhere."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest
from hostile_files import FIRST, HostileFiles, Printed, built, every_command, ran
from hostile_text import PIECES, bare, name, obeyed, uncoloured
from sojourn.invocation.progress import doing
from sojourn.model.formatting import printable
from sojourn_lab.cli.common import print_json

# The commands that show routes as rows, and those of them that say them in JSON.
BY_ROUTE = ("split", "blame", "watch")
IN_JSON = ("split", "goodput", "tiers", "kernel", "watch")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> HostileFiles:
    folder = tmp_path_factory.mktemp("files")
    (folder / "out").mkdir()
    return built(folder)


@pytest.fixture(scope="module")
def printed(files: HostileFiles) -> Callable[..., Printed]:
    """What a command printed, run once; with ``json``, what it printed as JSON."""
    known: dict[tuple[str, bool], Printed] = {}
    commands = every_command(files, files.folder / "out")

    def of(command: str, as_json: bool = False) -> Printed:
        if (command, as_json) not in known:
            arguments = [a for a in commands[command] if not (as_json and str(a) == "--quiet")]
            known[command, as_json] = ran(*arguments, *(["--json"] if as_json else []))
        return known[command, as_json]

    return of


COMMANDS = list(every_command(HostileFiles(*[Path()] * 7), Path()))


# --- a terminal


@pytest.mark.parametrize("command", COMMANDS)
def test_no_output_contains_control_characters(printed: Callable[..., Printed], command: str) -> None:
    result = printed(command)
    assert result.code == 0 or "no prediction" in result.err, result.err
    assert result.out.strip()
    assert obeyed(result.out) == set()
    assert obeyed(result.err) == set()


@pytest.fixture(scope="module")
def of_one_service(files: HostileFiles) -> HostileFiles:
    """The same log, of one service: its routes are named alone."""
    log = files.folder / "one-service.jsonl"
    with log.open("w") as file:
        for line in files.log.read_bytes().splitlines():
            with suppress(ValueError):  # a torn line
                file.write(json.dumps({**json.loads(line), "service": "shop"}) + "\n")
    (files.folder / "one").mkdir()
    return replace(files, log=log)


@pytest.mark.parametrize("command", BY_ROUTE)
def test_every_route_is_shown_as_it_is(of_one_service: HostileFiles, command: str) -> None:
    """Were one taken for markup, a pattern or an emoji's name, what is shown would begin otherwise.

    A long name loses its middle, and is wrapped at its spaces.
    """
    out = "".join(ran(*every_command(of_one_service, of_one_service.folder / "one")[command]).out.split())
    missing = [first for first in FIRST if printable(bare(first))[:20].split()[0] not in out]
    assert not missing


def test_colours_are_the_only_sequences_on_a_terminal_with_colours(files: HostileFiles) -> None:
    out = ran("blame", files.log, NO_COLOR="", FORCE_COLOR="1", TERM="xterm-256color").out
    assert "\x1b[" in out
    assert obeyed(uncoloured(out)) == set()


def test_a_heading_and_a_line_of_progress_are_no_markup(
    files: HostileFiles, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with doing(quiet=False) as say:
        say(f"recording to {bare(12)}[/]")
    assert "\x1b]" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ("split", "{text}.jsonl"), ("split", "{log}", "--by", "{text}"), ("split", "{log}", "--since", "{text}"),
        ("split", "{log}", "--where", "route={text}"), ("split", "{log}", "--where", "{text}=1"),
        ("plot", "{log}", "{text}", "--out", "x.svg"), ("plot", "{log}", "blame", "--out", "x.{text}"),
        ("movie", "{log}", "--by", "service", "--scene", "{text}", "--out", "x.html"),
        ("pcap", "{log}"), ("kernel", "{log}"), ("doctor", "--explain", "{text}"), ("--config", "{text}", "config"),
        ("store", "query", "clickhouse://u:{text}@[", "SELECT 1"), ("simulate", "--arrivals", "{text}"),
        ("lab", "run", "{text}"), ("lab", "show", "{text}"), ("lab", "compare", "{text}", "{text}"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_errors_contain_no_control_characters(files: HostileFiles, arguments: tuple[str, ...]) -> None:
    text = bare(0).replace("\x00", "").replace("\n", "")
    result = ran(*(each.format(text=text, log=files.log) for each in arguments))
    assert result.code in (1, 2)
    assert result.err.strip()
    assert "fault of sojourn's own" not in result.err
    assert obeyed(result.err) == set()


# --- data for programs


@pytest.mark.parametrize("command", IN_JSON)
def test_json_is_plain_ascii_and_holds_the_texts_exactly(printed: Callable[..., Printed], command: str) -> None:
    result = printed(command, as_json=True)
    assert result.out.isascii()
    assert obeyed(result.out) == set()
    document = json.loads(result.out)
    if command == "split":
        routes = [row["route"] for row in document["by"]["route"]]  # with their services
        assert not [first for first in FIRST if not any(route.endswith(f" {bare(first)}") for route in routes)]
    elif command == "goodput":
        assert {row["group"] for row in document["by"]["tenant"]} <= {name("tenant", first) for first in FIRST} | {None}


def test_parquet_and_rejected_lines_hold_the_exact_texts(files: HostileFiles, printed: Callable[..., Printed]) -> None:
    printed("split")
    routes = pl.read_parquet(files.folder / "out/split.parquet", columns=["route"])["route"].unique().to_list()
    assert {bare(first) for first in FIRST} <= set(routes)
    lines = (files.folder / "out/rejects.jsonl").read_text()
    assert lines.isascii()
    raw = [json.loads(line)["raw"] for line in lines.splitlines()]
    assert len(raw) == 2 * len(PIECES)
    for first in range(len(PIECES)):
        assert name("junk", first).replace("\n", "") + "\ufffd" in raw


# --- pages and pictures


class _Page(HTMLParser):
    """What a page is made of."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(key, value or "") for key, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.mark.parametrize(
    ("command", "file"), [("report", "report"), ("pcap", "pcap"), ("kernel", "kernel"), ("movie", "movie")]
)
def test_a_page_has_no_element_and_no_attribute_of_theirs(
    files: HostileFiles, printed: Callable[..., Printed], command: str, file: str
) -> None:
    printed(command)
    text = (files.folder / f"out/{file}.html").read_text()
    page = _Page(text)
    assert not {"img", "iframe", "object", "embed", "form", "link", "base", "textarea"} & set(page.tags)
    assert not [key for key, _ in page.attributes if key.startswith("on")]
    assert all(
        value.startswith("#") for key, value in page.attributes if key in ("href", "src", "xlink:href", "action")
    )
    ids = [value for key, value in page.attributes if key == "id"]
    assert len(ids) == len(set(ids))
    # The spec of each chart, the libraries and the page's own script; the movie its data and its own.
    scripts = page.tags.count("script")
    assert scripts == (2 if command == "movie" else page.tags.count("figure") + 2)
    shown = re.sub(r"<script.*?</script>|<style.*?</style>", "", text, flags=re.S)
    assert obeyed(shown) == set()
    assert "0\\x1b[31mR" in shown or command in ("pcap", "kernel")
    assert "7*7" in shown or command in ("pcap", "movie")


def test_data_in_a_page_cannot_end_its_element(files: HostileFiles, printed: Callable[..., Printed]) -> None:
    printed("report")
    page = (files.folder / "out/report.html").read_text()
    data = re.findall(r'<script type="application/json" id="[^"]*">(.*?)</script>', page, re.S)
    assert len(data) > 20
    for each in data:
        assert "<" not in each
        json.loads(each)


def test_pictures_are_drawn_of_every_text(files: HostileFiles, printed: Callable[..., Printed]) -> None:
    """A control character, or an emoji that a label cuts in two, once ended the drawing and the report with it."""
    printed("plot")
    picture = ET.fromstring((files.folder / "out/blame.svg").read_text())
    tags = {element.tag.rpartition("}")[2] for element in picture.iter()}
    assert not tags & {"script", "image", "foreignObject", "a", "use"}
    assert obeyed("".join(picture.itertext())) == set()
    values = json.loads((files.folder / "out/blame.json").read_text())["datasets"]
    shown = [text for rows in values.values() for row in rows for text in row.values() if isinstance(text, str)]
    assert any("\\x1b[31mR" in text for text in shown)
    assert obeyed("".join(shown)) == set()


def test_a_long_name_leaves_room_for_the_finding(tmp_path: Path, files: HostileFiles) -> None:
    log = tmp_path / "long.jsonl"
    lines = [json.loads(line) for line in files.log.read_bytes().splitlines()[:400]]
    log.write_text("".join(json.dumps({**line, "route": "L" * 8_192}) + "\n" for line in lines))
    out = ran("blame", log).out
    assert len(out) < 20_000
    assert "…" in out
    assert re.search(r"L… caused [\d.]+ %|own backend had a free worker", out)


def test_the_lab_s_json_is_ascii_and_exact(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"text": bare(0), "number": 0.1})
    out = capsys.readouterr().out
    assert out.isascii()
    assert obeyed(out) == set()
    assert json.loads(out) == {"text": bare(0), "number": 0.1}

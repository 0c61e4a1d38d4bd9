"""``import sojourn``: the command line's functions for programs and notebooks; its examples are run."""

from __future__ import annotations

import doctest
import importlib
import inspect
import json
import re
import subprocess
import sys
import textwrap
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
import sojourn
import typer
from analysis_support import BASE, line
from sojourn.analyses import questions
from sojourn.cli import app
from sojourn.present.pictures import Drawings

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs/examples"
SHOP, SPANS = str(EXAMPLES / "shop.jsonl.gz"), str(EXAMPLES / "shop-spans.jsonl.gz")
HOSTILE = "<script>alert(1)</script>\x1b[31m"
RUNS = [f"{each.package}.run" for each in questions()]
MODULES = ("sojourn", "sojourn.plots", "sojourn.timeline.visits_of", *RUNS)
FUNCTIONS = sorted(name for name in sojourn.__all__ if inspect.isfunction(getattr(sojourn, name)))


@pytest.fixture(scope="module")
def shop() -> sojourn.SplitResult:
    return sojourn.split(SHOP, spans=SPANS, columns=("request_id", "tenant", "uri", "remote_addr", "method"))


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings_are_true(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    module = importlib.import_module(name)
    ran = doctest.testmod(module, extraglobs={"sojourn": sojourn})
    assert ran.failed == 0
    assert ran.attempted > 0 or name == "sojourn.analyses.split.run"  # its example is the package's


def test_every_function_is_documented_and_typed() -> None:
    assert {"split", "blame", "depth", "whatif", "goodput", "laws", "capacity", "compare", "tiers", "clock"} <= set(
        FUNCTIONS
    )
    for name in FUNCTIONS:
        function = getattr(sojourn, name)
        assert len(function.__doc__) > 60, name
        signature = inspect.signature(function)
        assert signature.return_annotation is not inspect.Signature.empty, name
        assert all(each.annotation is not inspect.Parameter.empty for each in signature.parameters.values()), name
    assert set(sojourn.__all__) == set(dir(sojourn))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        sojourn.nonsense  # noqa: B018


# What a command says besides: what it writes, how it prints, and what has another form in Python.
PRINTING = {
    "log-format", "app-log-format", "columns", "json", "quiet", "html", "parquet", "rejects", "out", "limit", "help",
    "log-limit", "force",
}  # fmt: skip
VERBS: dict[str, tuple[str, dict[str, str]]] = {
    "split": ("split", {"capture": "captures"}),
    "blame": ("blame", {}),
    "depth": ("depth", {}),
    "infer": ("infer", {}),
    "goodput": ("goodput", {}),
    "laws": ("laws", {}),
    "capacity": ("capacity", {}),
    "compare": ("compare", {}),
    "contrast": ("contrast", {}),
    "clock": ("clock", {}),
    "simulate": ("simulate", {}),
    "tiers": ("tiers", {}),
    "whatif": ("whatif", {"set": "variants", "variant": "variants"}),
    "pcap": ("pcap", {"backend": "backends", "kernel": "log"}),
    "movie": ("write_movie", {"out": "path", "each": "requests", "only": "by", "scene": "by"}),
    "timeline": ("write_timeline", {"out": "path"}),
    "report": ("write_report", {"capture": "captures", "html": "path"}),
}


@pytest.mark.parametrize("verb", VERBS)
def test_options_have_the_same_names_in_python(verb: str) -> None:
    function, other = VERBS[verb]
    command: Any = typer.main.get_command(app).commands[verb]  # type: ignore[attr-defined]
    options = {name[2:] for each in command.params for name in each.opts if name.startswith("--")}
    wanted = {other.get(name, name.replace("-", "_")) for name in options - (PRINTING - set(other))}
    assert wanted <= set(inspect.signature(getattr(sojourn, function)).parameters)


def test_requests_are_taken_as_one_has_them(shop: sojourn.SplitResult, tmp_path: Path) -> None:
    """Sources, a split, what was read, a frame of it, and canonical rows all have the same depth and blame."""
    read = sojourn.read(SHOP, spans=SPANS)
    shop.write_parquet(tmp_path / "rows.parquet")
    wanted = sojourn.depth(shop).overall
    for requests in (SHOP, [SHOP], Path(SHOP)):
        assert sojourn.depth(requests, spans=SPANS).overall == wanted
    for requests in (read, shop.rows, shop.rows.collect(), pl.scan_parquet(tmp_path / "rows.parquet")):
        assert sojourn.depth(requests).overall == wanted
    canonical = sojourn.read(SHOP).rows
    assert sojourn.depth(canonical).overall == sojourn.depth(SHOP).overall
    assert sojourn.blame(shop, by="tenant").culprits.equals(sojourn.blame(SHOP, by="tenant", spans=SPANS).culprits)


def test_a_window_and_a_choice_hold_for_a_split_and_for_a_log_alike(shop: sojourn.SplitResult) -> None:
    chosen: dict[str, Any] = {"since": 1767225620.0, "until": 1767225680.0, "where": {"route": "/export"}}
    of_log, of_split = sojourn.goodput(SHOP, spans=SPANS, **chosen), sojourn.goodput(shop, **chosen)
    assert 0 < of_log.requests < 200
    assert (of_split.requests, of_split.given_up) == (of_log.requests, of_log.given_up)
    assert of_split.wasted == pytest.approx(of_log.wasted)


def test_errors_name_the_argument(shop: sojourn.SplitResult) -> None:
    with pytest.raises(sojourn.SojournError, match=r"sojourn\.split"):
        sojourn.depth(shop, spans=SPANS)
    with pytest.raises(sojourn.SojournError, match="column 'nothing' was not read"):
        sojourn.blame(shop, by="nothing")
    with pytest.raises(sojourn.SojournError, match="column 'host' was not read"):
        sojourn.depth(shop, where={"host": "a"})
    with pytest.raises(sojourn.SojournError, match="two sides"):
        sojourn.compare(shop)
    with pytest.raises(sojourn.SojournError, match="not a frame of requests: there is no"):
        sojourn.depth(pl.DataFrame({"a": [1]}))
    with pytest.raises(sojourn.SojournError, match="not one of system"):
        sojourn.capacity(shop, instance="moon")
    with pytest.raises(sojourn.SojournError, match="discipline: 'luck'"):
        sojourn.simulate("poisson:8", "constant:0.1", discipline="luck")
    with pytest.raises(sojourn.SojournError, match="no such file"):
        sojourn.blame("/nowhere.jsonl")


def test_compare_takes_two_splits_or_one_and_an_instant(shop: sojourn.SplitResult) -> None:
    result = sojourn.compare(shop, SHOP)
    assert (result.names, result.a) == (("A", "B"), shop)
    divided = sojourn.compare(SHOP, at=1767225660.0)
    assert divided.a.requests + divided.b.requests == shop.requests


def all_results(shop: sojourn.SplitResult) -> list[Any]:
    ramp = sojourn.split(EXAMPLES / "ramp.jsonl.gz")
    return [
        shop,
        sojourn.blame(shop),
        sojourn.depth(shop),
        sojourn.goodput(shop),
        sojourn.laws(shop),
        sojourn.capacity(ramp, slo="p99=0.5"),
        sojourn.compare(shop, shop),
        sojourn.clock(EXAMPLES / "clocks.jsonl.gz"),
        sojourn.whatif(shop, {"workers": "+1"}),
        sojourn.tiers(EXAMPLES / "checkout-spans.jsonl.gz"),
        sojourn.diagnose(str(EXAMPLES / "clocks.jsonl.gz")),
        sojourn.kernel_queues(EXAMPLES / "kernel.jsonl.gz"),
        sojourn.pcap(EXAMPLES / "wire.pcap.gz", log=EXAMPLES / "wire.jsonl.gz"),
        sojourn.simulate("poisson:8", "exponential:0.1", requests=5_000),
    ]


def test_every_result_has_its_tables_as_frames(shop: sojourn.SplitResult) -> None:
    for result in [*all_results(shop), sojourn.infer(EXAMPLES / "plain.log.gz")]:
        assert result.tables, type(result)
        frames = {name: result.to_polars(name) for name in result.tables}
        assert all(isinstance(frame, pl.DataFrame) for frame in frames.values()), type(result)
        assert result.to_polars().equals(frames[result.tables[0]])
        assert frames[result.tables[0]].height > 0, type(result)
        with pytest.raises(sojourn.SojournError, match=f"the tables are {', '.join(result.tables)}"):
            result.to_polars("no_such_table")
    with pytest.raises(sojourn.SojournError, match=r"'rout'; did you mean 'route'\? The tables are rows"):
        shop.to_polars("rout")


def test_tables_have_the_figures_of_the_result(shop: sojourn.SplitResult) -> None:
    assert shop.to_polars().equals(shop.rows.collect())
    components = shop.to_polars("components")
    assert components["component"].to_list() == ["response_time", *shop.components]
    assert components["p99"][0] == shop.response_time["p99"]
    routes = shop.to_polars("route")
    assert routes["queueing_delay_p99"].to_list() == [row["queueing_delay"]["p99"] for row in shop.by["route"]]  # type: ignore[index]
    blame = sojourn.blame(shop)
    assert blame.to_polars("matrix") is blame.matrix
    ramp = sojourn.capacity(EXAMPLES / "ramp.jsonl.gz", slo="p99=0.5")
    assert ramp.to_polars().equals(ramp.windows.table)
    assert ramp.to_polars("knees")["rate"].to_list() == [knee.rate for knee in ramp.knees]
    change = sojourn.compare(shop, at="2026-01-01T00:01:00Z")
    assert change.to_polars("groups")["requests_a"].sum() == change.a.requests
    assert change.to_polars()["figure"].to_list() == ["mean", "p50", "p90", "p99", "p999", "max"][:5]
    variants = sojourn.whatif(shop, [{"workers": "+1"}, {"balancer": "least_conn"}]).to_polars()
    assert variants.select("set_workers", "set_balancer").rows() == [("+1", None), (None, "least_conn")]


QUANTILES = [0.0, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0]


@pytest.mark.parametrize("column", ["request_time", "queueing_delay", "service_time", "transfer"])
@pytest.mark.parametrize("by", [None, "route", "tenant", ["route", "upstream"]])
def test_quantiles_are_exact(shop: sojourn.SplitResult, column: str, by: str | list[str] | None) -> None:
    rows = shop.served.collect()
    groups = [] if by is None else [by] if isinstance(by, str) else by
    parts = rows.partition_by(groups, as_dict=True) if groups else {(): rows}
    expected = {
        (*key, q): (part[column].count(), float(np.quantile(part[column].drop_nulls(), q)))
        for key, part in parts.items()
        for q in QUANTILES
    }
    table = shop.quantile(QUANTILES, of=column, by=by)  # type: ignore[call-overload]
    assert table.columns == [*groups, "q", "requests", column]
    assert {row[:-2]: (row[-2], pytest.approx(row[-1])) for row in table.rows()} == expected
    assert table.equals(sojourn.quantile(shop.rows, QUANTILES, of=column, by=by))  # type: ignore[call-overload]


def test_quantiles_of_every_input_and_with_errors(shop: sojourn.SplitResult, tmp_path: Path) -> None:
    assert shop.quantile(0.99) == shop.response_time["p99"] == sojourn.quantile(SHOP, 0.99, spans=SPANS)
    assert shop.quantile(0.9, of="queueing") == shop.components["queueing_delay"]["p90"]
    late = shop.rows.filter(pl.col("request_time") > 1)
    assert sojourn.quantile(late, 0.0) == late.collect()["request_time"].min()
    for arguments, words in (
        ({"q": 99}, r"99 is not a share from 0 to 1; 0\.99 is p99"),
        ({"q": -0.1}, "not a share"),
        ({"q": 0.5, "by": "rout"}, "did you mean 'route'"),
        ({"q": 0.5, "of": "status"}, "'status' is no time in seconds; choose from request_time"),
        ({"q": 0.5, "of": "servicetime"}, "no time in seconds|was not read"),
    ):
        with pytest.raises(sojourn.SojournError, match=words):
            shop.quantile(**arguments)  # type: ignore[call-overload]
    nothing = pl.DataFrame(schema=sojourn.read(SHOP).rows.collect_schema())
    assert sojourn.quantile(nothing, 0.5) is None


class Outline(HTMLParser):
    """Elements and text of a piece of HTML; fails on what is closed out of order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text = ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_every_result_shows_itself(shop: sojourn.SplitResult) -> None:
    """A sentence where it is printed, a table in a notebook, and the JSON of the command line."""
    for result in all_results(shop):
        sentence = str(result)
        assert sentence.endswith("."), sentence
        assert "\n" not in repr(result)
        assert repr(result) == f"<{type(result).__name__}: {sentence}>"
        shown = Outline(result._repr_html_())
        assert sentence[:40] in shown.text.replace("\u00a0", " ")
        assert "table" in shown.seen
        assert not re.search(r"(?:color|background):\s*#", result._repr_html_())  # the notebook's own colours
        assert json.dumps(result.to_dict(), default=str)


def test_a_hostile_log_is_text_in_a_notebook(tmp_path: Path) -> None:
    fields = {"upstream_connect_time": "0.000", "upstream_header_time": "0.9", "upstream_response_time": "0.9"}
    log = tmp_path / f"{HOSTILE.replace('/', '')}.jsonl"
    log.write_bytes(
        b"".join(
            line(
                time=f"{BASE + i}.000", request_time="0.900", request_start=f"{BASE + i - 1}.100", worker="1",
                upstream_addr="a:80", queueing_delay="0.700000" if i else "0.000000",
                service_time="0.200000" if i else "0.900000", route=HOSTILE if i % 2 else "/b", **fields,
            )
            for i in range(50)
        )
    )  # fmt: skip
    result = sojourn.split(log)
    for outcome in (result, sojourn.blame(result)):
        outline = Outline(outcome._repr_html_())
        assert "script" not in outline.seen
        assert "<script>" in outline.text
        assert "\x1b" not in outcome._repr_html_() + repr(outcome)


def test_the_report_holds_what_the_command_line_puts_into_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: dict[str, Any] = {}

    class Page(NamedTuple):
        """Requirements of a page."""

        result: object
        more: dict[str, Any]

        def write(self, path: Path, _: Drawings) -> None:
            written.update(self.more, result=self.result, path=path)

    monkeypatch.setattr("sojourn.report.build.report_page", lambda result, **more: Page(result, more))
    result = sojourn.write_report(SHOP, tmp_path / "r.html", spans=SPANS, by="tenant", workers=2, title="A")
    assert (written["result"], written["path"], written["title"]) == (result, tmp_path / "r.html", "A")
    sections = {section.key: section for section in written["sections"]}
    assert {"blame", "depth", "whatif", "goodput", "laws", "capacity", "clock"} <= set(sections)
    assert "acme" in sections["blame"].sentence


def test_a_movie_of_a_split_and_of_two_logs_side_by_side(shop: sojourn.SplitResult, tmp_path: Path) -> None:
    film = sojourn.write_movie(shop, tmp_path / "m.html", since=1767225660.0, until=1767225680.0)
    assert len(film.scenes) == 1
    assert "<html" in (tmp_path / "m.html").read_text()
    both = sojourn.write_movie({"a": shop, "b": shop.rows}, tmp_path / "n.png", backend=["10.0.0.1:8080"])
    assert len(both.scenes) == 2
    with pytest.raises(sojourn.SojournError, match=r"\.gif"):
        sojourn.write_movie(shop, tmp_path / "m.avi")


def test_samples_the_kernel_queues_of_this_machine() -> None:
    if not Path("/proc/net/netstat").exists():
        pytest.skip("only Linux reports the kernel's queues")
    assert sojourn.kernel_queues(seconds=0).samples == 1


def test_import_loads_no_large_package() -> None:
    code = (
        "import sys, sojourn; print(sorted({m.partition('.')[0] for m in sys.modules} & {'polars', 'numpy', 'altair'}))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


SNIPPET = """\
from pathlib import Path

import sojourn

result = sojourn.split(Path("access.jsonl"), by="route")
reveal_type(result)
reveal_type(sojourn.blame(result, by="tenant").culprits)
reveal_type(sojourn.capacity(["a.jsonl", "b.jsonl.gz"], slo="p99=0.5"))
reveal_type(sojourn.__version__)
sojourn.depth(42)
"""


@pytest.mark.thorough
def test_a_program_of_the_users_is_checked_against_the_types(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "program.py").write_text(SNIPPET)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "program.py"],
        capture_output=True, text=True, check=False, cwd=tmp_path, timeout=120,
    )  # fmt: skip
    matches = re.findall(r'Revealed type is "(?:builtins\.)?(\S+)"', done.stdout)
    assert [each.rpartition(".")[2] for each in matches] == ["SplitResult", "DataFrame", "Capacity", "str"], done.stdout
    assert re.findall(r"error: .*\[(.*)\]", done.stdout) == ["arg-type"], done.stdout


def test_the_three_lines_of_the_how_to(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Every Python block of the page runs, one after the other, and prints what the page says."""
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs/how-to/python.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", page, re.M | re.S)
    assert len(blocks[0][0].strip().splitlines()) == 3
    names: dict[str, Any] = {}
    for code, printed in blocks:
        exec(compile(textwrap.dedent(code), "python.md", "exec"), names)
        shown = capsys.readouterr().out
        if printed:
            assert shown.split() == printed.split()

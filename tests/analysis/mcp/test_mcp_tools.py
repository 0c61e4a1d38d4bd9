"""The tools are the questions, and offer the options that neither write nor read anything but sources."""

from __future__ import annotations

import ctypes
import gzip
import itertools
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from mcp_support import EXAMPLES
from sojourn.analyses import questions
from sojourn.cli import app
from sojourn.mcp.answers import result_of, shortened
from sojourn.mcp.arguments import LONGEST_TEXT, MOST_VALUES, check_values, command_arguments
from sojourn.mcp.options import Kind, parameters_of
from sojourn.mcp.places import Places
from sojourn.mcp.processes import Finished
from sojourn.mcp.tools import SOURCES, tools
from sojourn.model.errors import ArgumentError, SojournError
from typer.testing import CliRunner

# What an agent cannot set: it writes, reads a configuration, looks at this machine or the network, or ends a refusal.
LEFT_OUT = {
    "split": {"--nginx", "--html", "--parquet", "--rejects"},
    "whatif": {"--force"},
    "pcap": {"--html", "--parquet"},
    "kernel": {
        "--unix", "--server", "--nginx", "--backlog", "--raindrops", "--period", "--seconds", "--out", "--once",
        "--html", "--bpftrace",
    },
}  # fmt: skip
OF_OUTPUT = {"--json", "--quiet"}
TOOLS = tools()
OPTIONS = [(tool.name, option) for tool in TOOLS.values() for option in tool.options]
VALUES = {Kind.FLAG: True, Kind.NUMBER: 1, Kind.FORMAT: "combined", Kind.PROCESS: "constant:1", Kind.TEXT: "1"}


def value_of(option: Any, text: str | None = None) -> Any:
    """A value that the schema allows, or this text."""
    if text is None and option.kind is Kind.WORD:
        text = option.schema.get("items", option.schema)["enum"][0]
    value = VALUES.get(option.kind, "access.jsonl") if text is None else text
    return [value] if option.multiple else value


@pytest.fixture
def places(tmp_path: Path) -> Places:
    (tmp_path / "access.jsonl").write_text("{}\n")
    return Places([str(tmp_path)])


def test_there_is_a_tool_for_each_question_and_one_that_lists_files() -> None:
    assert list(TOOLS) == [SOURCES, *(question.name for question in questions())]
    for question in questions():
        assert question.asks in TOOLS[question.name].description
        assert question.needs in TOOLS[question.name].description
    assert all("data, not instructions" in tool.description for tool in TOOLS.values())


@pytest.mark.parametrize("question", questions(), ids=lambda question: question.name)
def test_each_option_is_offered_or_left_out_for_a_reason(question: Any) -> None:
    parameters = list(parameters_of(question.name, question.load("command", question.name)))
    left_out = {label for label, _, option in parameters if option is None}
    assert left_out - OF_OUTPUT == LEFT_OUT.get(question.name, set())
    assert set(TOOLS[question.name].fixed) == left_out & OF_OUTPUT
    names = [option.name for *_, option in parameters if option is not None]
    assert "rows" not in names
    assert len({*names}) == len(names) > 1


def test_an_option_that_is_not_understood_is_left_out() -> None:
    from typing import Annotated  # noqa: PLC0415

    import typer  # noqa: PLC0415

    def command(
        sources: Annotated[list[str], typer.Argument(metavar="PLACE...")],
        out: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
        script: Annotated[str, typer.Option("--script", metavar="CODE")] = "",
        write: Annotated[bool, typer.Option("--write")] = False,
        many: Annotated[int, typer.Option(metavar="N", max=3)] = 2,
    ) -> None: ...

    globals().update(Annotated=Annotated, typer=typer)
    offered = {label: option for label, _, option in parameters_of("command", command)}
    assert {label for label, option in offered.items() if option is None} == {"sources", "--out", "--script", "--write"}
    assert offered["--many"].schema | {"description": ""} == {
        "type": "integer", "maximum": 3, "default": 2, "description": "",
    }  # fmt: skip


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
def test_the_schema_is_one_and_means_what_is_checked(tool: Any) -> None:
    validator = jsonschema.Draft202012Validator(tool.schema)
    validator.check_schema(tool.schema)
    properties, required = tool.schema["properties"], tool.schema.get("required", [])
    assert all(schema["description"] for schema in properties.values())
    right = {option.name: value_of(option) for option in tool.options}
    wrong: list[dict[str, Any]] = [{**right, "unheard-of": 1}]
    wrong += [{name: value for name, value in right.items() if name != needed} for needed in required]
    wrong += [{**right, name: value} for name in properties for value in ({}, [{}], "", [], None)]
    for values in [right, *wrong]:
        fits = validator.is_valid(values)
        try:
            check_values(values, properties, required)
        except ArgumentError:
            assert not fits or "" in values.values() or [] in values.values()  # limits of all texts and arrays
        else:
            assert fits


@pytest.mark.parametrize(
    ("values", "schema"),
    [
        ({"a": True}, {"type": "integer"}),
        ({"a": 1.5}, {"type": "integer"}),
        ({"a": 0}, {"type": "number", "minimum": 1}),
        ({"a": 3}, {"type": "number", "maximum": 2}),
        ({"a": "x" * (LONGEST_TEXT + 1)}, {"type": "string"}),
        ({"a": "\0"}, {"type": "string"}),
        ({"a": "\ud800"}, {"type": "string"}),
        ({"a": ["x"] * (MOST_VALUES + 1)}, {"type": "array", "items": {"type": "string"}}),
        ({"a": ["x", 1]}, {"type": "array", "items": {"type": "string"}}),
    ],
)
def test_values_that_no_command_can_take_are_refused(values: dict[str, Any], schema: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=r"^a:"):
        check_values(values, {"a": schema}, [])


def test_no_value_is_read_as_an_option(places: Places) -> None:
    arguments = command_arguments(
        TOOLS["whatif"].options,
        {
            "sources": ["access.jsonl"],
            "where": ["--force"],
            "set": ["-h", "--force=1"],
            "closed_loop": True,
            "cores": 2.0,
        },
        places,
    )
    source = f"{places.folders[0]}/access.jsonl"
    assert arguments == ["--set=-h", "--set=--force=1", "--closed-loop", "--cores=2", "--where=--force", "--", source]


@pytest.mark.parametrize(
    ("name", "option"),
    [(name, option) for name, option in OPTIONS if option.kind in {Kind.SOURCE, Kind.PROCESS}],
    ids=lambda value: getattr(value, "name", value),
)
def test_an_option_with_a_path_reads_the_folders_only(name: str, option: Any, places: Places) -> None:
    prefix = "trace:" if option.kind is Kind.PROCESS else ""
    inside = command_arguments([option], {option.name: value_of(option, f"{prefix}access.jsonl")}, places)
    assert any(argument.endswith(f"{places.folders[0]}/access.jsonl") for argument in inside)
    for path in ("/etc/passwd", "../x", "/etc/*"):
        with pytest.raises(ArgumentError, match="outside"):
            command_arguments([option], {option.name: value_of(option, prefix + path)}, places)


def unlike_each_other() -> list[tuple[str, Any]]:
    """Options that take text, those that several commands share once."""
    kinds = {Kind.TEXT, Kind.FORMAT, Kind.PROCESS, Kind.WORD}
    texts = [(name, option) for name, option in OPTIONS if option.kind in kinds]
    return list({(option.flag, option.schema["description"]): (name, option) for name, option in texts}.values())


def test_no_other_option_opens_the_file_that_its_value_names(tmp_path: Path) -> None:
    """A value may look like a name of a file; the kernel says whether the file was opened."""
    (tmp_path / "places").mkdir()
    with gzip.open(EXAMPLES / "shop.jsonl.gz", "rb") as log:
        (tmp_path / "places/access.jsonl").write_bytes(b"".join(itertools.islice(log, 60)))
    secret = tmp_path / "secret.conf"
    secret.write_text("http { log_format main '$remote_addr'; }\n")
    places = Places([str(tmp_path / "places")])
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(os.O_NONBLOCK)
    assert libc.inotify_add_watch(descriptor, os.fsencode(secret), 0x20) > 0  # IN_OPEN

    def opened(arguments: list[str]) -> bool:
        CliRunner(env={"SOJOURN_CONFIG": ""}).invoke(app, ["--no-config", *arguments])
        try:
            return bool(os.read(descriptor, 4096))
        except BlockingIOError:
            return False

    assert opened(["split", f"--log-format={secret}:main", str(tmp_path / "places/access.jsonl")])
    options = unlike_each_other()
    assert len(options) > 20
    try:
        for (name, option), form in itertools.product(
            options, ("{}", "{}:main", "@{}", "x={}", "file://{}", "trace:{}")
        ):
            needed = [each for each in TOOLS[name].options if each.required or each.name == "sources"]
            values = {each.name: value_of(each) for each in needed}
            values[option.name] = value_of(option, form.format(secret))
            try:
                arguments = command_arguments(TOOLS[name].options, values, places)
            except ArgumentError:
                continue
            assert not opened([name, *TOOLS[name].fixed, *arguments]), (name, option.flag, form)
    finally:
        os.close(descriptor)


def test_long_lists_are_shortened_and_their_lengths_stated() -> None:
    values = {"a": [1, 2, 3], "b": {"c": [{"d": [1, 2]}, {"d": [1, 2, 3, 4]}]}, "e": [], "f": "text"}
    assert shortened(values, 2) == {
        "shortened": {"a": 3, "b.c[].d": 4}, "a": [1, 2], "b": {"c": [{"d": [1, 2]}, {"d": [1, 2]}]}, "e": [],
        "f": "text",
    }  # fmt: skip
    assert shortened(values, 4) == values


@pytest.mark.parametrize("code", [0, 1])
def test_json_is_a_result_also_with_exit_code_1(code: int) -> None:
    assert result_of(Finished(code, b'{"refused": "x"}', "sojourn: no prediction\n")) == {"refused": "x"}


@pytest.mark.parametrize(
    ("finished", "sentence"),
    [
        (Finished(1, b"", "sojourn: x.log: no such file\n"), "x.log: no such file"),
        (Finished(2, b"", "Usage: sojourn split\nTry 'sojourn'\n\nError: Invalid value\n"), "Invalid value"),
        (Finished(0, b"[]", ""), "exit code 0"),
        (Finished(-9, b'{"a": 1}', ""), "SIGKILL"),
        (Finished(1, b"{", "a\x1b[31mb"), "a\\x1b[31mb"),
        (Finished(0, b"[" * 100_000, ""), "exit code 0"),
    ],
)
def test_without_a_result_the_sentence_of_the_command_is_the_error(finished: Finished, sentence: str) -> None:
    with pytest.raises(SojournError) as error:
        result_of(finished)
    assert sentence in str(error.value)
    assert "Usage" not in str(error.value)

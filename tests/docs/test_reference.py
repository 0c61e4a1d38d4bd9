"""The generated reference is what the code says today, and the command line explains itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs_support import DOCS
from sojourn_docs import __main__ as generator
from sojourn_docs import json_keys
from sojourn_docs.commands import page_of
from sojourn_docs.tree import Command, program

ROOT = program()
REGENERATE = "PYTHONPATH=docs python -m sojourn_docs writes it again"
COSTLY = {"reference/sql.md", "reference/json.md"}  # tests/store compares the first, `make lint` both
COMMANDS = list(ROOT.every())


@pytest.mark.parametrize("name", sorted(set(generator.PAGES) - COSTLY))
def test_a_generated_page_is_current(name: str) -> None:
    if name == "reference/metrics.md":
        pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed: no span was made")
    assert (DOCS / name).read_text(encoding="utf-8") == generator.PAGES[name](), REGENERATE


def test_a_key_of_the_json_is_in_the_reference() -> None:
    """One verb here; `make lint` compares the whole page."""
    text = (DOCS / "reference/json.md").read_text(encoding="utf-8")
    section = text.split("\n## goodput\n")[1].partition("\n## ")[0]
    assert f"\n## goodput\n{section}".strip() == json_keys.section("goodput").strip(), REGENERATE


def test_what_is_not_current_is_named_and_then_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generator, "files", lambda: {"reference/a.md": "new\n", "reference/b.md": "b\n"})
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference/b.md").write_text("b\n")
    assert generator.main(["--check", str(tmp_path)]) == 1
    assert capsys.readouterr().err.splitlines() == ["not current: reference/a.md"]
    assert not (tmp_path / "reference/a.md").exists()
    assert generator.main([str(tmp_path)]) == 0
    assert (tmp_path / "reference/a.md").read_text() == "new\n"
    assert generator.main(["--check", str(tmp_path)]) == 0


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_argument_and_option_has_help(command: Command) -> None:
    assert command.summary.endswith((".", "?")), command.paragraphs
    for parameter in command.parameters:
        assert parameter.text, f"{command.name} {parameter.signature} is not explained"


@pytest.mark.parametrize("verb", ROOT.children, ids=lambda verb: verb.words[0])
def test_every_verb_has_a_page_that_names_its_options(verb: Command) -> None:
    page = (DOCS / "reference" / page_of(verb.words[0])).resolve()
    assert page.exists(), f"{verb.name} has no page"
    if verb.words[0] == "lab":
        return  # its README shows what it can do; its options are in the list of commands
    text = page.read_text(encoding="utf-8")
    for command in verb.every():
        for option in command.options:
            assert "--help" in option.names or any(name in text for name in option.names), option.signature


def test_the_list_of_commands_names_every_command_and_option() -> None:
    text = (DOCS / "reference/commands.md").read_text(encoding="utf-8")
    for command in COMMANDS:
        section = re.split(rf"^##+ {re.escape(command.name)}$", text, maxsplit=1, flags=re.M)[1].partition("\n## ")[0]
        for parameter in command.parameters:
            assert parameter.signature.replace("|", "\\|") in section


def test_long_options_are_written_alike() -> None:
    """What means the same is called the same everywhere; of the exporter, also as by Prometheus's exporters."""
    names = {name for command in COMMANDS for option in command.options for name in option.names}
    names.remove("--web.config.file")
    assert not [name for name in names if not re.fullmatch(r"-[a-z]|--[a-z][a-z0-9]*(-[a-z0-9]+)*", name)]
    for command in COMMANDS:
        for option in command.options:
            if "--json" in option.names:
                assert option.flag
            if "-q" in option.names:
                assert "--quiet" in option.names

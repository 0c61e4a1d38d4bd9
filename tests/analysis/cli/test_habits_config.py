"""Defaults from configuration files: which wins, what is refused, and that no secret is printed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from sojourn.cli import app, main
from sojourn.cli.config import without_secrets
from sojourn.cli.defaults import NEVER
from sojourn.invocation.completion import BALANCERS, COLUMNS, DISCIPLINES
from sojourn.model.frame import SCHEMA
from sojourn.queueing import system
from syrupy.assertion import SnapshotAssertion

ROOT = Path(__file__).parents[3]
SHOP = str(ROOT / "docs/examples/shop.jsonl.gz")


@pytest.fixture(autouse=True)
def nothing_of_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SOJOURN_CONFIG", raising=False)


class Ran:
    """What a command ended with and printed."""

    def __init__(self, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.capfd, self.monkeypatch = capfd, monkeypatch

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        self.monkeypatch.setattr(sys, "argv", ["sojourn", *arguments])
        try:
            main()
        except SystemExit as end:
            return int(end.code or 0), *self.capfd.readouterr()
        raise AssertionError("a command ends")


@pytest.fixture
def ran(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ran:
    return Ran(capfd, monkeypatch)


def users_file(tmp_path: Path) -> Path:
    (tmp_path / "home/sojourn").mkdir(parents=True, exist_ok=True)
    return tmp_path / "home/sojourn/config.toml"


def in_force(ran: Ran, *arguments: str) -> dict[tuple[str, str], Any]:
    code, reported, _ = ran(*arguments, "config", "--json")
    assert code == 0
    return {(each["command"], each["option"]): each["value"] for each in json.loads(reported)["defaults"]}


def test_a_default_holds_and_the_command_line_wins(ran: Ran, tmp_path: Path) -> None:
    (tmp_path / "sojourn.toml").write_text('[split]\nby = ["status"]\njson = true\nwhere = ["route=/export"]\n')
    of_file = json.loads(ran("split", SHOP)[1])
    assert set(of_file["by"]) == {"status"}
    assert of_file["requests"] < 200
    of_line = json.loads(ran("split", SHOP, "--by", "route", "--where", "status=200")[1])
    assert set(of_line["by"]) == {"route"}
    assert of_line["requests"] > 2_000
    assert ran("--no-config", "split", SHOP)[1].startswith("Unknown: of 390 ms on average")


def test_which_of_the_files_wins(ran: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    users_file(tmp_path).write_text(
        "[defaults]\nquiet = true\nslo = 0.1\n[split]\nslo = 0.2\n[report]\nby = 'service'\n"
    )
    assert in_force(ran)["split", "slo"] == "0.2"
    (tmp_path / "sojourn.toml").write_text("[defaults]\nslo = 0.3\n[report]\nby = 'tenant'\n")
    result = in_force(ran)
    assert result["split", "slo"] == "0.2"  # said of the command, if only by the user
    assert result["report", "slo"] == "0.3"
    assert result["report", "by"] == "tenant"
    assert result["blame", "quiet"] is True
    assert ("capacity", "slo") not in result  # whose objectives are written otherwise
    (tmp_path / "other.toml").write_text("[split]\nslo = 0.4\n")
    (tmp_path / "third.toml").write_text("[split]\nslo = 0.5\n")
    monkeypatch.setenv("SOJOURN_CONFIG", "other.toml")
    assert in_force(ran) == {("split", "slo"): "0.4"}
    assert in_force(ran, "--config", "third.toml") == {("split", "slo"): "0.5"}
    monkeypatch.setenv("SOJOURN_CONFIG", "")
    assert in_force(ran) == in_force(ran, "--no-config") == {}


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("[split]\nslow = 1", "[split] 'slow'"),
        ("[splitt]\nslo = 1", "[splitt]"),
        ("slo = 1", "'slo'"),
        ('[split]\nslo = "fast"', "[split] slo: 'fast'"),
        ("[split]\nslo = -1", "[split] slo: -1"),
        ("[split]\njson = 1", "[split] json: 1"),
        ("[split]\nslo = [1, 2]", "[split] slo"),
        ("[split]\nwhere = [{a = 1}]", "[split] where: {'a': 1}"),
        ('[split]\nhtml = "/etc/passwd"', "[split] html"),
        ("[doctor]\nask-backends = true", "[doctor] ask-backends"),
        ("[capture]\nforce = true", "[capture] force"),
        ('[lab.run]\nurl = "http://a"', "[lab run] url"),
        ("[defaults]\nfoo = 1", "[defaults] foo"),
        ("[defaults]\nquiet = 3", "[defaults] quiet: 3"),
        ("[store]\nrows = 3", "[store] 'rows'"),
        ("[split\n", "TOML"),
        ("\udcff", "UTF-8"),
        ('[split]\n"\\u001b[31m" = 1', "[split] '\\x1b[31m'"),
    ],
)
def test_rejects_invalid_setting_with_file_and_key(
    ran: Ran, tmp_path: Path, text: str, where: str, snapshot: SnapshotAssertion
) -> None:
    (tmp_path / "sojourn.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    code, stdout, stderr = ran("lab", "list") if text.startswith("[lab") else ran("split", SHOP)
    assert (code, stdout) == (2, "")
    assert stderr.startswith("sojourn: sojourn.toml: ")
    assert where in stderr
    assert len(stderr.splitlines()) == 1
    assert "\x1b" not in stderr
    assert stderr == snapshot


def test_value_refused_by_a_command_names_the_file(ran: Ran, tmp_path: Path) -> None:
    (tmp_path / "sojourn.toml").write_text('[split]\nby = "colour"\n')
    code, _, stderr = ran("split", SHOP)
    assert code == 2
    assert "(set in sojourn.toml)" in stderr
    assert "set in" not in ran("split", SHOP, "--by", "moon")[2]


def test_help_shows_settings_in_force_and_works_with_an_invalid_file(ran: Ran, tmp_path: Path) -> None:
    (tmp_path / "sojourn.toml").write_text("[split]\nslo = 0.125\n")
    assert "0.125" in ran("split", "--help")[1]
    (tmp_path / "sojourn.toml").write_text("[split")
    code, stdout, stderr = ran("split", "--help")
    assert code == 0
    assert "--slo" in stdout
    assert "not valid TOML" in stderr
    assert ran("--help")[0] == ran("--version")[0] == 0


def test_rejects_missing_file(ran: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ran("--config", "nope.toml", "config")[0] == 2
    assert "nope.toml: no such configuration file" in ran("--config", "nope.toml", "config")[2]
    assert "cannot be used with --config" in ran("--no-config", "--config", "nope.toml", "config")[2]
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.delenv("HOME")
    assert ran("config")[1].startswith("no configuration file")


def test_passwords_are_not_printed(ran: Ran, tmp_path: Path) -> None:
    (tmp_path / "sojourn.toml").write_text(
        '[report]\nbefore = ["clickhouse://me:s3cret@h/db", "a.jsonl?password=s3cret&x=1"]\n'
    )
    for arguments in (["config"], ["config", "--json"]):
        _, stdout, stderr = ran(*arguments)
        assert "s3cret" not in stdout + stderr
        assert "me:…@h/db" in stdout.replace("\\u2026", "…")
    assert without_secrets(["https://a/b@c", 1]) == ["https://a/b@c", 1]


def test_example_is_valid(ran: Ran) -> None:
    result = in_force(ran, "--config", str(ROOT / "docs/examples/sojourn.toml"))
    assert result["split", "slo"] == "0.5"


def test_nothing_that_writes_can_be_set(ran: Ran) -> None:
    """Options whose value is a file to be written, of every verb; a new one must be added to the list."""
    command: Any = typer.main.get_command(app)
    for name, verb in command.commands.items():
        for each in getattr(verb, "params", ()):
            for option in each.opts:
                says = str(getattr(each, "help", "") or "")
                if option.startswith("--") and ("Write" in says or "to write" in says or "Replace" in says):
                    assert option[2:] in NEVER, f"{name} {option}"


def test_completion_offers_existing_values() -> None:
    assert set(COLUMNS) <= set(SCHEMA)
    assert DISCIPLINES == system.DISCIPLINES
    assert set(BALANCERS) <= set(system.BALANCERS)

"""Configuration files (sojourn.toml): defaults that options take, or one sentence that names file and key."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

import typer
from sojourn.cli import app
from sojourn.cli.config import without_secrets
from sojourn.cli.defaults import NEVER, ConfigError, defaults_of

from fuzz import nasty
from fuzz.refusals import refusal

PACKAGES: tuple[str, ...] = ("sojourn",)
_FOLDER = tempfile.TemporaryDirectory(prefix="fuzz")
_ROOT = typer.main.get_command(app)
_CONTEXT = _ROOT.make_context("sojourn", ["--help"], resilient_parsing=True)
_VERBS = (
    "defaults",
    "split",
    "blame",
    "whatif",
    "simulate",
    "capacity",
    "store",
    "lab",
    "pcap",
    "watch",
    "report",
    "nothing",
)
_OPTIONS = (
    "workers",
    "slo",
    "by",
    "where",
    "since",
    "json",
    "quiet",
    "requests",
    "seed",
    "arrivals",
    "html",
    "force",
    "load",
    "query",
)


def check(data: bytes) -> None:
    """The checks of the files; their messages contain no password."""
    path = Path(_FOLDER.name, "sojourn.toml")
    path.write_bytes(data)
    output = refusal(lambda: _sound(path), ConfigError)
    assert output is None or output.startswith(str(path)), output


def _sound(path: Path) -> None:
    for each in defaults_of([path], _ROOT, _CONTEXT).settings:
        assert each.option not in NEVER
        assert "://u:hunter2@" not in str(without_secrets(each.value)), each


def generated(rng: Random) -> bytes:
    """Tables of verbs with options of theirs and others."""
    if rng.random() < 0.02:
        return b"a = " + b"[" * rng.choice((50, 500, 5000))
    lines = []
    for _ in range(rng.randrange(1, 4)):
        lines.append(f"[{rng.choice(_VERBS)}{rng.choice(('', '', '', '.load', '.query', '.run'))}]")
        lines += [f"{rng.choice((*_OPTIONS, nasty.text(rng)))} = {_value(rng)}" for _ in range(rng.randrange(4))]
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _value(rng: Random) -> str:
    return rng.choice((
        nasty.number(rng), f'"{nasty.number(rng)}"', "true", "false", "[]", '["4"]', '["a=1", "b"]', "1.5",
        "2026-01-31", "{a = 1}",
        '"clickhouse://u:hunter2@h/db"', '["clickhouse://u:hunter2@h/db"]', '"route"', '"p99=0.5"',
        '["workers=+1"]', '""',
    ))  # fmt: skip

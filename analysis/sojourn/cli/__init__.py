"""The command line: one file per verb; errors in words, never a traceback."""

from __future__ import annotations

import os
import sys
from importlib.metadata import entry_points
from typing import Annotated

import typer

from sojourn import __version__
from sojourn.cli import blame as blame_verb
from sojourn.cli import capacity as capacity_verb
from sojourn.cli import capture as capture_verb
from sojourn.cli import clock as clock_verb
from sojourn.cli import compare as compare_verb
from sojourn.cli import depth as depth_verb
from sojourn.cli import goodput as goodput_verb
from sojourn.cli import kernel as kernel_verb
from sojourn.cli import laws as laws_verb
from sojourn.cli import pcap as pcap_verb
from sojourn.cli import report as report_verb
from sojourn.cli import simulate as simulate_verb
from sojourn.cli import split as split_verb
from sojourn.cli import store as store_verb
from sojourn.cli import tiers as tiers_verb
from sojourn.cli import whatif as whatif_verb
from sojourn.cli.common import pipe_closed_early_is_fine
from sojourn.errors import SojournError
from sojourn.words import printable

app = typer.Typer(
    name="sojourn",
    help="Slow code, or a queue? Split response time behind nginx into queueing delay and service time.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("split")(split_verb.split)
app.command("blame")(blame_verb.blame)
app.command("depth")(depth_verb.depth)
app.command("whatif")(whatif_verb.whatif)
app.command("goodput")(goodput_verb.goodput)
app.command("laws")(laws_verb.laws)
app.command("capacity")(capacity_verb.capacity)
app.command("compare")(compare_verb.compare)
app.command("tiers")(tiers_verb.tiers)
app.command("clock")(clock_verb.clock)
app.command("capture")(capture_verb.capture)
app.command("pcap")(pcap_verb.pcap)
app.command("simulate")(simulate_verb.simulate)
app.command("kernel")(kernel_verb.kernel)
app.command("report")(report_verb.report)
app.add_typer(store_verb.app, name="store")


def _version(wanted: bool) -> None:
    if wanted:
        import duckdb  # noqa: PLC0415
        import polars  # noqa: PLC0415

        typer.echo(f"sojourn {__version__} (polars {polars.__version__}, duckdb {duckdb.__version__})")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print versions and exit.")
    ] = False,
) -> None:
    """Slow code, or a queue?"""


def main() -> None:
    """Run a command. Exit codes: 0, 1 for a failure, 2 for wrong usage, 130 when interrupted."""
    for plugin in entry_points(group="sojourn.commands"):
        app.add_typer(plugin.load(), name=plugin.name)
    with pipe_closed_early_is_fine():
        _run()


def _run() -> None:
    try:
        app()
    except SojournError as error:
        print(f"sojourn: {printable(error, 1_000)}", file=sys.stderr)  # noqa: T201
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except Exception as error:
        if os.environ.get("SOJOURN_DEBUG"):
            raise
        print(  # noqa: T201
            f"sojourn: this is a fault of sojourn's own: {type(error).__name__}: {str(error).splitlines()[:1]}. "
            "Set SOJOURN_DEBUG=1 to see where, and please report it.",
            file=sys.stderr,
        )
        raise SystemExit(1) from None

"""The command line: the group of verbs, configuration files, and the verbs ``capture``, ``store`` and ``config``.

The other verbs are in the folders of what they do. Errors are sentences; no traceback reaches the user.
"""

from __future__ import annotations

import atexit
import gc
import os
import platform
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, NoReturn

import typer

from sojourn.analyses import questions
from sojourn.cli.defaults import ConfigError, Defaults, config_files, defaults_of
from sojourn.cli.streams import made_usable
from sojourn.cli.verbs import GIVEN, Verbs
from sojourn.invocation.progress import pipe_closed_early_is_fine
from sojourn.model.compilation import announce_compilation
from sojourn.model.errors import SojournError
from sojourn.model.extras import missing_package, spec_of
from sojourn.model.formatting import printable
from sojourn.model.incomplete import incomplete_files
from sojourn.model.version import version as version_of_package
from sojourn.present.signals import ended_in_order

COLLECTED_AFTER = 50_000  # new objects; Python's default is 700
# What figures and pictures are made by: distribution -> what it is called here. Read from metadata: nothing is loaded.
ENGINES = {"polars": "polars", "duckdb": "duckdb", "numba": "numba", "chdb-core": "chdb", "altair": "altair"}


class _Verbs(Verbs):
    """The verbs of Sojourn, in the order of the help."""

    places: ClassVar[Mapping[str, tuple[str, str]]] = {
        **{question.name: (f"{question.package}.command", question.name) for question in questions()},
        "capture": ("sojourn.cli.capture", "capture"),
        "report": ("sojourn.report.command", "report"),
        "plot": ("sojourn.plots.command", "plot"),
        "movie": ("sojourn.movie.command", "movie"),
        "timeline": ("sojourn.perfetto.command", "timeline"),
        "serve": ("sojourn.serve.command", "serve"),
        "watch": ("sojourn.watch.command", "watch"),
        "export": ("sojourn.export.command", "export"),
        "mcp": ("sojourn.mcp.command", "mcp"),
        "doctor": ("sojourn.doctor.command", "doctor"),
        "install": ("sojourn.install.command", "app"),
        "uninstall": ("sojourn.install.command", "removing"),
        "config": ("sojourn.cli.config", "config"),
        "store": ("sojourn.cli.store", "app"),
    }


app = typer.Typer(
    name="sojourn",
    cls=_Verbs,
    help="Slow code, or a queue? Split response time behind nginx into queueing delay and service time.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(requested: bool) -> None:
    if requested:
        typer.echo(versions())
        raise typer.Exit


def versions() -> str:
    """Return ``sojourn 0.1.0 (python 3.11.2, polars 1.34.0, …)``, without packages that are not installed."""
    from importlib import metadata  # noqa: PLC0415 - takes its time to load

    parts = [f"python {platform.python_version()}"]
    for distribution, name in ENGINES.items():
        try:
            parts.append(f"{name} {metadata.version(distribution)}")
        except metadata.PackageNotFoundError:
            continue
    if vega := _vega_lite():
        parts.append(f"vega-lite {vega}")
    return f"sojourn {version_of_package()} ({', '.join(parts)})"


def _vega_lite() -> str:
    """Return the version of Vega-Lite that charts are written in; empty where there is none."""
    spec = spec_of("altair")
    if spec is None or not spec.submodule_search_locations:
        return ""
    schema = Path(spec.submodule_search_locations[0], "vegalite")
    # Altair says it in the name of the schema it was made from; importing it would take longer than the rest.
    for file in sorted(schema.glob("v*/schema/__init__.py"), reverse=True):
        match = re.search(r"SCHEMA_VERSION\s*=\s*[\"']v?([\d.]+)", file.read_text(encoding="utf-8"))
        if match:
            return match[1]
    return ""


@app.callback()
def options(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001 - its callback has done it
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print versions and exit.")
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="F", help="Read defaults of options from this TOML file instead of the user's and the project's."
        ),
    ] = None,
    no_config: Annotated[bool, typer.Option("--no-config", help="Read no configuration file.")] = False,
) -> None:
    """Split response time into queueing delay and service time."""
    if no_config and config is not None:
        raise typer.BadParameter("cannot be used with --config", param_hint="--no-config")
    try:
        files = [] if no_config else config_files(config)
        context.obj = defaults_of(files, context.command, context) if files else Defaults()
    except ConfigError as error:
        if "--help" not in context.meta.get(GIVEN, ()):
            raise
        typer.echo(f"sojourn: {printable(error, 1_000)}", err=True)
        context.obj = Defaults()
    context.default_map = context.obj.map


def program() -> None:
    """Run ``main`` and end the process at once.

    Freeing the frames of millions of requests and the engines takes a tenth of the time of a split; ending the process
    frees them at once. Looking for garbage among what the imports create takes as much of a short run: it is looked for
    more rarely.
    """
    gc.set_threshold(COLLECTED_AFTER)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # its threads only wait, and busily
    try:
        main()
        code = 0
    except SystemExit as end:
        if not isinstance(end.code, int):
            raise
        code = end.code
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        raise SystemExit(code) from None  # Python reports the error
    atexit._run_exitfuncs()
    os._exit(code)


def main() -> None:
    """Run a command. Exit codes: 0, 1 for a failure, 2 for wrong usage, 130 when interrupted, 143 when terminated."""
    made_usable()
    incomplete_files()  # of a command before in this process
    announce_compilation(_say_that_code_is_compiled)
    try:
        with ended_in_order(), pipe_closed_early_is_fine():
            app()
    except SystemExit as end:
        # rich and typer treat a pipe that was closed early as a failure; `… | head` is not one.
        if isinstance(end.__context__, BrokenPipeError):
            raise SystemExit(0) from None
        if sentences := incomplete_files():
            for sentence in sentences:
                print(f"sojourn: {printable(sentence, 1_000)}", file=sys.stderr)  # noqa: T201
            raise SystemExit(end.code or 1) from None
        raise
    except ConfigError as error:
        _end(str(error), 2)
    except SojournError as error:
        _end(str(error), 1)
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BaseException as error:
        # A panic of an engine in Rust is a BaseException.
        engine = type(error).__name__ == "PanicException"
        if os.environ.get("SOJOURN_DEBUG") or not (engine or isinstance(error, Exception)):
            raise
        _end(_in_words(error), 1)


def _say_that_code_is_compiled() -> None:
    if sys.stderr.isatty() and not {"-q", "--quiet"} & set(sys.argv):
        print("sojourn: compiling code for this machine (once, some seconds)", file=sys.stderr)  # noqa: T201


def _in_words(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("sojourn."):
        return missing_package(error.name or "a module")
    if isinstance(error, OSError) and error.strerror:
        # What has no name is what was printed: files are written under theirs.
        return f"{error.filename or 'standard output'}: {error.strerror}"
    text = str(error).strip().partition("\n")[0]
    return (
        f"this is a fault of sojourn's own: {type(error).__name__}: {text}. "
        "Set SOJOURN_DEBUG=1 to see where, and please report it."
    )


def _end(text: str, code: int) -> NoReturn:
    text, gap, lines = text.partition("\n\n")  # lines for a configuration
    text = printable(text, 1_000) + "".join(f"\n{printable(line)}" for line in (gap + lines).splitlines()[1:])
    print(f"sojourn: {text}", file=sys.stderr)  # noqa: T201
    raise SystemExit(code) from None

"""Common parts of the commands of `sojourn lab`: exit codes, error messages, and the orderly end of a run."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import traceback
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, NoReturn, ParamSpec

import msgspec
import typer
from rich.console import Console
from sojourn.model.formatting import printable

from sojourn_lab.errors import LabError, ScenarioError
from sojourn_lab.experiments.runner import finished_run
from sojourn_lab.results.progress import watched
from sojourn_lab.results.run_folder import RunFolder
from sojourn_lab.results.run_schema import Run, run_bytes
from sojourn_lab.results.tables import print_run
from sojourn_lab.runtime.interrupts import Interrupted, Interrupts
from sojourn_lab.runtime.runtime import ProcessRuntime, RuntimeMaker
from sojourn_lab.scenario.scaling import scenario_with_time_scaled
from sojourn_lab.scenario.schema import Scenario

USAGE, FAILURE, CLOSED_PIPE = 2, 1, 141
RUNS = Path("runs")

P = ParamSpec("P")
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]


def print_json(value: Any) -> None:
    """Print one JSON object in ASCII: texts from logs and files are exact, and their control characters escaped."""
    text = msgspec.json.encode(value, enc_hook=str).decode().replace("\x7f", "\\u007f")
    typer.echo(re.sub(r"[^\x00-\x7f]+", lambda match: json.dumps(match[0])[1:-1], text))


def fail(message: str, code: int) -> NoReturn:
    """End the command with a message on stderr."""
    # The message may quote a scenario file or a log: its control characters are escaped, line by line.
    sys.stderr.write("\n".join(printable(line, 1_000) for line in f"sojourn lab: {message}".splitlines()) + "\n")
    raise typer.Exit(code)


def plainly(command: Callable[P, None]) -> Callable[P, None]:
    """Return the command with every error reported as one message and an exit code."""

    @wraps(command)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except ScenarioError as error:
            fail(str(error), USAGE)
        except LabError as error:
            fail(str(error), FAILURE)
        except BrokenPipeError:
            # The reader of stdout has closed it; a second failure at exit would print a traceback.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(CLOSED_PIPE) from None
        except OSError as error:
            # An error without a file name is one of stdout: errors of files name them.
            fail(f"{error.filename2 or error.filename or 'standard output'}: {error.strerror or error}", FAILURE)
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:  # a bug of the lab: users see no traceback
            if isinstance(error, typer.BadParameter):
                raise  # typer prints it with the option's name
            fail(f"unexpected {type(error).__name__}: {error}", FAILURE)

    return guarded


def run_in_good_order(
    scenario: Scenario,
    scale: float,
    folder: RunFolder,
    quiet: bool,
    *,
    make_runtime: RuntimeMaker = ProcessRuntime,
    changes: dict[str, Any] | None = None,
    once: bool = False,
) -> Run:
    """Return the finished run; a void one is repeated, unless `once`, at the lower load of `repeat_scale`.

    The first run is then in `<folder>.void`, and a message on stderr reports it.
    """
    run = _run_once(scenario, scale, folder, quiet, make_runtime, changes)
    if not run.void or once:
        return run
    lower = scenario.repeat_scale
    aside = folder.set_aside()
    load = f"with every duration times {lower:g}" if lower > 1.0 else "with the same load"
    sys.stderr.write(
        f"sojourn lab: {scenario.name}: void: {printable('; '.join(run.void_reasons), 1_000)}\n"
        f"sojourn lab: {scenario.name} is measured once more, {load}; the void run is in {aside}\n"
    )
    if lower > 1.0:
        scenario = scenario_with_time_scaled(scenario, lower)
    again = RunFolder.claimed(folder.final)
    return _run_once(scenario, scale * lower, again, quiet, make_runtime, changes, run.void_reasons)


def _run_once(
    scenario: Scenario,
    scale: float,
    folder: RunFolder,
    quiet: bool,
    make_runtime: RuntimeMaker,
    changes: dict[str, Any] | None,
    first_try: list[str] | None = None,
) -> Run:
    """Return the finished run; an interrupt or an error ends it with a message and leaves the logs."""
    interrupts = Interrupts()
    try:
        with interrupts.caught(), watched(quiet) as watcher:
            return finished_run(
                scenario,
                scale,
                folder,
                interrupts,
                watcher,
                make_runtime=make_runtime,
                changes=changes,
                first_try=first_try,
            )
    except Interrupted as interrupt:
        fail(f"stopped by {interrupt}; everything is down, logs are in {folder.partial}", interrupt.exit_code)
    except LabError as error:
        fail(f"{error}\neverything is down, logs are in {folder.partial}", FAILURE)
    except OSError as error:
        # An error without a file name is of the run's folder.
        where = error.filename2 or error.filename or folder.partial  # of a copy, the target
        reason = f"{where}: {error.strerror or error}"
        fail(f"{reason}\neverything is down, files written so far are in {folder.partial}", FAILURE)
    except Exception as error:  # a bug of the lab: the details go to the logs
        with contextlib.suppress(OSError):
            (folder.logs / "lab.err").write_text(traceback.format_exc())
        name = type(error).__name__
        fail(
            f"unexpected {name}: {error}\neverything is down, details are in {folder.logs / 'lab.err'}",
            FAILURE,
        )


def print_record(run: Run, folder: Path, as_json: bool) -> None:
    """Print a run: its tables, or with `as_json` its record and the path of its folder."""
    if as_json:
        record: dict[str, Any] = msgspec.json.decode(run_bytes(run))
        print_json({"run": str(folder), **record})
    else:
        print_run(Console(), run, str(folder))

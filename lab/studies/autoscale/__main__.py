"""`PYTHONPATH=lab python -m studies.autoscale RUN...`: write the page on autoscaling from runs of `autoscale`."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from studies.autoscale.findings import COMPARED_LOADS
from studies.autoscale.page import page
from studies.autoscale.pictures import write_pictures
from studies.autoscale.recorded import measurement_of
from studies.autoscale.simulated import DRAWS, simulated_cells
from studies.page_output import exit_code_of, write_page


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m studies.autoscale", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folders of runs of the scenario autoscale")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="write the page's pictures as well")
    parser.add_argument(
        "--draws", type=int, default=DRAWS, metavar="N", help="simulated loads of each setting (default: %(default)s)"
    )
    parser.add_argument("--out", type=Path, help="write this page (default: print it)")
    return exit_code_of("autoscale", partial(_run, parser.parse_args(arguments)))


def _run(options: argparse.Namespace) -> None:
    measurement = measurement_of(options.runs)
    scenario = measurement.run.scenario
    simulated = {
        load: simulated_cells(scenario, list(measurement.cases[load].values()), options.draws)
        for load in COMPARED_LOADS
        if load in measurement.cases
    }
    if options.pictures is not None:
        write_pictures(measurement, simulated, options.pictures)
    write_page(page(measurement, simulated), options.out)


if __name__ == "__main__":
    sys.exit(main())

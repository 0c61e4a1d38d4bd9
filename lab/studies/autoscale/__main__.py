"""`PYTHONPATH=lab python -m studies.autoscale RUN...`: write the page on autoscaling from runs of `autoscale`."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from studies.autoscale.page import page
from studies.autoscale.pictures import write_pictures
from studies.autoscale.recorded import measurement_of
from studies.page_output import exit_code_of, write_page


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m studies.autoscale", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folders of runs of the scenario autoscale")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="write the page's pictures as well")
    parser.add_argument("--out", type=Path, help="write this page (default: print it)")
    return exit_code_of("autoscale", partial(_run, parser.parse_args(arguments)))


def _run(options: argparse.Namespace) -> None:
    measurement = measurement_of(options.runs)
    if options.pictures is not None:
        write_pictures(measurement, options.pictures)
    write_page(page(measurement), options.out)


if __name__ == "__main__":
    sys.exit(main())

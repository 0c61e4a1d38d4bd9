"""`PYTHONPATH=lab python -m studies.inference`: measure the accuracy of inferred queues, and write its page.

Simulated systems of known waits, seen through nginx's clock; takes about ten minutes. Nothing random is left: the seeds
are options. With folders of the lab's runs it compares their measured queues with what their logs show without them.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from studies.inference.pages import recorded_page, simulated_page
from studies.inference.pictures import write_pictures
from studies.inference.recorded import recorded
from studies.page_output import exit_code_of, write_page


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m studies.inference", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="*", metavar="RUN", help="folders of runs (default: simulate)")
    parser.add_argument("--requests", type=int, default=15_000, help="of each log (default: 15000)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="(default: 1 2 3)")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="write the explanation's pictures, and stop")
    parser.add_argument("--out", type=Path, help="write this page (default: print it)")
    options = parser.parse_args(arguments)
    return exit_code_of("inference", partial(_run, options))


def _run(options: argparse.Namespace) -> None:
    if options.pictures is not None:
        write_pictures(options.pictures)
        return
    if options.runs:
        text = recorded_page([each for folder in options.runs for each in recorded(folder)])
    else:
        text = simulated_page(options.requests, options.seeds)
    write_page(text, options.out)


if __name__ == "__main__":
    sys.exit(main())

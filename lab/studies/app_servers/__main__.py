"""`PYTHONPATH=lab python -m studies.app_servers RUN`: write the page on app servers from a run of `app-servers`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from studies.app_servers.page import page
from studies.page_output import exit_code_of, write_page


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m studies.app_servers", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a run of the scenario app-servers")
    parser.add_argument("--out", type=Path, help="write this page (default: print it)")
    options = parser.parse_args(arguments)
    return exit_code_of("app_servers", lambda: write_page(page(options.run), options.out))


if __name__ == "__main__":
    sys.exit(main())

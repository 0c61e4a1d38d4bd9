"""`python -m sojourn_lab.experiments.app_servers RUN`: write the page on app servers from a run of `app-servers`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sojourn_lab.errors import LabError
from sojourn_lab.experiments.app_servers.page import page


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m sojourn_lab.experiments.app_servers", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a run of the scenario app-servers")
    parser.add_argument("--out", type=Path, help="write this page (default: print it)")
    options = parser.parse_args(arguments)
    try:
        text = page(options.run)
        if options.out is None:
            sys.stdout.write(text)
        else:
            options.out.write_text(text, encoding="utf-8")
    except LabError as error:
        sys.stderr.write(f"app_servers: {error}\n")
        return 1
    except OSError as error:
        sys.stderr.write(f"app_servers: {error.filename}: {error.strerror or error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

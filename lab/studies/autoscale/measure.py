"""`python -m studies.autoscale.measure`: run the scenario `autoscale`, with the options of `sojourn lab run`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from sojourn.cli.streams import made_usable
from sojourn_lab.cli import app
from sojourn_lab.experiments.runner import KINDS_OF_STUDIES

from studies.autoscale.case import run_case

SCENARIO_FILE = Path(__file__).with_name("autoscale.toml")


def main(arguments: Sequence[str]) -> None:
    """Run the scenario and exit, as `sojourn lab run` does."""
    KINDS_OF_STUDIES["autoscale"] = run_case
    made_usable()
    app(["run", str(SCENARIO_FILE), *arguments], prog_name="sojourn lab")


if __name__ == "__main__":
    main(sys.argv[1:])

"""`python -m sojourn_lab.experiments.endurance`: run the whole stack for a long time and check that memory is flat.

nginx, app servers with the middleware and their spans, `sojourn watch` twice (as JSON, and on a terminal), a loader
that keeps an embedded store up to date from the logs that are rotated, and `sojourn capture` into a ring with
--capture. Exit code: 0 if everything is flat and nothing is missing, 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

from sojourn_lab.errors import LabError
from sojourn_lab.experiments.endurance.stack import Measurements, Wish, endured
from sojourn_lab.experiments.endurance.verdict import table_of, verdict_of
from sojourn_lab.runtime.interrupts import Interrupted, Interrupts


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m sojourn_lab.experiments.endurance", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--minutes", type=float, default=30.0, help="duration of the load (default: 30)")
    parser.add_argument("--rate", type=float, default=20.0, help="requests a second (default: 20)")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between samples (default: 10)")
    parser.add_argument("--rotate", type=float, default=60.0, help="seconds between rotations of the log (default: 60)")
    parser.add_argument("--capture", action="store_true", help="record packets into a ring too (needs root)")
    parser.add_argument("--out", type=Path, help="folder for endurance.json, endurance.md and the logs")
    options = parser.parse_args(arguments)
    if options.minutes <= 0 or options.rate <= 0 or options.every <= 0 or options.rotate <= 2:
        parser.error("--minutes, --rate and --every must be above 0, --rotate above 2")
    wish = Wish(options.minutes * 60.0, options.rate, options.every, options.rotate, options.capture)
    folder = options.out or Path(tempfile.mkdtemp(prefix="endurance-"))
    if folder.exists() and any(folder.iterdir()):
        parser.error(f"--out {folder}: the folder is not empty; name a new one")
    folder.mkdir(parents=True, exist_ok=True)
    interrupts, measured, broken = Interrupts(), Measurements(), ""
    try:
        with interrupts.caught():
            endured(folder.resolve(), wish, interrupts, measured, _say)
    except LabError as error:
        broken = str(error).partition("\n")[0]
        sys.stderr.write(f"endurance: {error}\n")
    except Interrupted as interrupted:
        return interrupted.exit_code
    verdict = verdict_of(wish, measured, broken)
    text = table_of(verdict)
    sys.stdout.write(text)
    if options.out is None:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        verdict["samples"] = {
            "instants": measured.instants,
            "memory": {name: [each.resident for each in samples] for name, samples in measured.usage.items()},
            "disk": measured.disk,
        }
        (folder / "endurance.json").write_text(json.dumps(verdict, indent=2) + "\n", encoding="utf-8")
        (folder / "endurance.md").write_text(text, encoding="utf-8")
    return 1 if verdict["faults"] else 0


def _say(measured: Measurements) -> None:
    if sys.stderr.isatty() and measured.instants:
        memory = ", ".join(f"{name} {samples[-1].resident / 1e6:.0f}" for name, samples in measured.usage.items())
        sys.stderr.write(f"\r\x1b[K{measured.instants[-1]:.0f} s: MB: {memory}")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())

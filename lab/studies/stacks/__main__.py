"""`PYTHONPATH=lab python -m studies.stacks`: start and load the usual stacks behind nginx; print the verdict on each.

Each stack is set up by the README's steps and the lines of `sojourn doctor`, gets 2,000 requests from 12 clients, and
is judged by `split`, `doctor`, `blame` and `whatif --set workers=+1`. A server that is not installed is named and
skipped.
Exit code: 0 where every stack could be run or skipped, 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from sojourn.model.formatting import milliseconds, percent
from sojourn_lab.errors import LabError
from sojourn_lab.runtime.interrupts import Interrupted, Interrupts
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.servers.table import why_unavailable

from studies.stacks.stack import BACKENDS, STACKS, Setup, Stack
from studies.stacks.verdicts import verdict_of

SHARES = ("queueing_share", "unattributed_share", "app_known")
HEADINGS = ("stack", "requests/s", "p99, ms", "queueing", "unattributed", "app known", "cause", "what-if", "doctor")


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m studies.stacks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("stacks", nargs="*", metavar="STACK", help=f"of {', '.join(STACKS)} (default: all)")
    parser.add_argument("--requests", type=int, default=2000, help="to each stack (default: 2000)")
    parser.add_argument("--clients", type=int, default=12, help="without think time (default: 12)")
    parser.add_argument("--service", type=float, default=0.01, help="of each request, s (default: 0.01)")
    variant = parser.add_mutually_exclusive_group()
    variant.add_argument("--without-stamps", action="store_true", help="no line of Sojourn in nginx's location")
    variant.add_argument("--half-silent", action="store_true", help="half of the backends have no middleware")
    variant.add_argument("--silent", action="store_true", help="no backend has the middleware")
    parser.add_argument("--json", action="store_true", help="print one JSON object in place of the table")
    parser.add_argument("--out", type=Path, help="keep configurations and logs in this new folder")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.stacks if name not in STACKS]
    if unknown:
        parser.error(f"{unknown[0]!r} is none of {', '.join(STACKS)}")
    if not (1 <= options.requests <= 100_000 and 1 <= options.clients <= 1000 and 0.0 <= options.service <= 10.0):
        parser.error("give 1 to 100000 requests, 1 to 1000 clients and a service of 0 to 10 s")
    if options.out is not None and options.out.exists():
        parser.error(f"{options.out} exists: name a new folder")
    if (reason := Nginx.why_unavailable()) is not None:
        sys.stderr.write(f"stacks: {reason}\n")
        return 1
    setup = Setup(
        options.requests,
        options.clients,
        options.service,
        stamps=not options.without_stamps,
        silent=BACKENDS if options.silent else BACKENDS // 2 if options.half_silent else 0,
    )
    interrupts = Interrupts()
    try:
        with interrupts.caught(), tempfile.TemporaryDirectory(prefix="stacks-") as temporary:
            folder = options.out or Path(temporary) / "stacks"
            folder.mkdir(parents=True)
            names = dict.fromkeys(options.stacks or STACKS)
            rows = {name: _row(name, setup, folder.resolve(), interrupts) for name in names}
    except Interrupted as interrupted:
        return interrupted.exit_code
    except OSError as error:
        sys.stderr.write(f"stacks: {error.filename or 'the results'}: {error.strerror or error}\n")
        return 1
    sys.stdout.write(json.dumps({"stacks": rows}, indent=2) + "\n" if options.json else text_of(rows))
    return 1 if any("failed_to_run" in row for row in rows.values()) else 0


def _row(name: str, setup: Setup, folder: Path, interrupts: Interrupts) -> dict[str, Any]:
    if (reason := why_unavailable(STACKS[name])) is not None:
        sys.stderr.write(f"stacks: {name} is skipped: {reason}\n")
        return {"skipped": reason}
    if sys.stderr.isatty():
        sys.stderr.write(f"stacks: {name}\n")
    try:
        with Stack(name, setup, folder / name, interrupts) as stack:
            return verdict_of(stack, stack.load())
    except LabError as error:
        sys.stderr.write(f"stacks: {name}: {error}\n")
        return {"failed_to_run": str(error)}


def text_of(rows: dict[str, dict[str, Any]]) -> str:
    """Return a table with a line per stack, and below it the sentences of each."""
    cells = [list(HEADINGS), *(_cells(name, row) for name, row in rows.items())]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADINGS))]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    return "\n".join([*table, "", *(line for name, row in rows.items() for line in _sentences(name, row))]) + "\n"


def _cells(name: str, row: dict[str, Any]) -> list[str]:
    if "sentence" not in row:
        return [name, "skipped" if "skipped" in row else "failed", *[""] * (len(HEADINGS) - 2)]
    codes = ", ".join(each["code"] for each in row["findings"]) or "none"
    return [
        name,
        "–" if row["rate"] is None else f"{row['rate']:.0f}",
        "–" if row["p99"] is None else milliseconds(row["p99"]),
        *("–" if row[key] is None else percent(row[key]) for key in SHARES),
        row["cause"] or "–",
        "accepted" if row["whatif"]["accepted"] else "refused",
        codes,
    ]


def _sentences(name: str, row: dict[str, Any]) -> list[str]:
    if "sentence" not in row:
        return [f"{name}: {row.get('skipped') or row.get('failed_to_run')}"]
    lines = [f"{name}: {row['sentence']}"]
    if row["failed"]:
        lines.append(f"  {row['failed']} of {row['requests']} requests failed")
    lines += [f"  note: {note}" for note in row["notes"]]
    blame = row["blame"]
    if blame["waited"] is None:
        lines.append(f"  blame: {blame['complaint'] or 'unknown'}")
    else:
        parts = ", ".join(f"{key} {blame[key]:.2f} s" for key in ("blamed", "imbalance", "dispatch", "unknown"))
        lines.append(f"  blame: {blame['waited']:.2f} s waited: {parts}")
    whatif = row["whatif"]
    if whatif["accepted"]:
        p99 = whatif["p99"]
        lines.append(f"  whatif: p99 {milliseconds(p99['measured'])} ms, then {milliseconds(p99['predicted'])} ms")
    else:
        lines.append(f"  whatif: refused: {whatif['refused']}")
    return lines


if __name__ == "__main__":
    sys.exit(main())

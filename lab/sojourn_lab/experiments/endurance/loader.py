"""`python -m sojourn_lab.experiments.endurance.loader FOLDER`: load the files that log rotation leaves into a store.

Every file `access.jsonl.N` that appears in FOLDER is loaded into the store in FOLDER/store and removed, as are closed
files of spans in the end. A file named `end` in FOLDER says that no more will come; `loaded.json` then has the counts.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from sojourn.analyses.blame.store import explain_store
from sojourn.model.errors import SojournError
from sojourn.store import connect, init, load

LOOK = 0.5
EXPLAIN_EVERY = 60.0


def loaded(folder: Path) -> dict[str, int]:
    """Load until the end; return the numbers of lines read and refused, and of rows in the store."""
    dsn = f"chdb://{folder / 'store'}"
    counts = {"files": 0, "lines": 0, "refused": 0, "minutes": 0}
    explained = time.monotonic()
    # The engine remains open: closing and opening it for every file would measure another program.
    init(dsn)
    with connect(dsn) as store:
        while True:
            ended = (folder / "end").exists()  # before listing: files that came first are listed
            for file in sorted(folder.glob("access.jsonl.*"), key=lambda path: int(path.suffix[1:])):
                result = load(dsn, [str(file)])
                counts["files"] += 1
                counts["lines"] += result.records.read
                counts["refused"] += result.records.rejected
                file.unlink()
            if ended:
                break
            if time.monotonic() - explained > EXPLAIN_EVERY:
                explained = time.monotonic()
                counts["minutes"] += explain_store(dsn).minutes
            time.sleep(LOOK)
        spans = sorted(folder.glob("logs/*.spans.jsonl"))
        if spans:
            nothing = folder / "nothing.jsonl"
            nothing.touch()
            load(dsn, [str(nothing)], spans=spans)
        for table in ("requests", "spans", "dead_letters"):
            ((rows,),) = store.client.query(f"SELECT count() FROM {table} FINAL").result_rows  # noqa: S608 - constants
            counts[table] = rows
        ((rolled,),) = store.client.query("SELECT sum(requests) FROM rollup_minute FINAL").result_rows
        counts["rolled_up"] = rolled
    return counts


def main(arguments: list[str]) -> int:
    """Return the exit code: 1 if the store failed."""
    (name,) = arguments
    folder = Path(name)
    try:
        counts = loaded(folder)
    except SojournError as error:
        sys.stderr.write(f"loader: {error}\n")
        return 1
    (folder / "loaded.json").write_text(json.dumps(counts), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Write the generated pages of docs/ from the code; ``--check`` says what is not current instead, and fails.

PYTHONPATH=docs python -m sojourn_docs [--check] [FOLDER]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from sojourn_docs import columns, commands, json_keys, manual, metrics, python_page, sql, stub

HOME = Path(__file__).parents[1]

PAGES: dict[str, Callable[[], str]] = {
    "reference/commands.md": commands.page,
    "reference/columns.md": columns.page,
    "reference/metrics.md": metrics.page,
    "reference/sql.md": sql.page,
    "reference/json.md": json_keys.page,
    "reference/python.md": python_page.page,
    "../analysis/sojourn/__init__.pyi": stub.page,
}


def files() -> dict[str, str]:
    """Path, seen from docs/ -> content."""
    return {name: made() for name, made in PAGES.items()} | {
        f"man/{name}": text for name, text in manual.pages().items()
    }


def main(arguments: list[str] | None = None) -> int:
    """Exit code: 1 where ``--check`` finds a file that is not current."""
    parser = argparse.ArgumentParser(prog="sojourn_docs", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; name the files that are not current")
    parser.add_argument("folder", nargs="?", type=Path, default=HOME)
    given = parser.parse_args(arguments)
    made = files()
    gone = [f"man/{page.name}" for page in (given.folder / "man").glob("*.1") if f"man/{page.name}" not in made]
    stale = [name for name, text in made.items() if not _is(given.folder / name, text)]
    for name in stale + gone:
        if given.check:
            print(f"not current: {name}", file=sys.stderr)  # noqa: T201 - a command's output
        elif name in gone:
            (given.folder / name).unlink()
        else:
            (given.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (given.folder / name).write_text(made[name], encoding="utf-8")
    return int(given.check and bool(stale + gone))


def _is(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main())

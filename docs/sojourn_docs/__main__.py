"""Write generated pages and nginx's include files from the code; with ``--check``, name those that are not current.

PYTHONPATH=docs python -m sojourn_docs [--check] [FOLDER]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from sojourn_docs import (
    columns,
    commands,
    json_keys,
    log_formats,
    metrics,
    nginx_includes,
    python_page,
    sql,
)

HOME = Path(__file__).parents[1]

PAGES: dict[str, Callable[[], str]] = {
    "reference/commands.md": commands.page,
    "reference/columns.md": columns.page,
    "reference/log-formats.md": log_formats.page,
    "reference/metrics.md": metrics.page,
    "reference/sql.md": sql.page,
    "reference/json.md": json_keys.page,
    "reference/python.md": python_page.page,
    "../analysis/sojourn/__init__.pyi": python_page.stub,
}


def files() -> dict[str, str]:
    """Return path, relative to docs/ -> content."""
    return {
        **{name: page() for name, page in PAGES.items()},
        **{f"../nginx/{name}": text for name, text in nginx_includes.includes().items()},
    }


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return the exit code, 1 if ``--check`` reports a file that is not current."""
    parser = argparse.ArgumentParser(prog="sojourn_docs", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; name the files that are not current")
    parser.add_argument("folder", nargs="?", type=Path, default=HOME)
    options = parser.parse_args(arguments)
    texts = files()
    stale = [name for name, text in texts.items() if not _is(options.folder / name, text)]
    for name in stale:
        if options.check:
            print(f"not current: {name}", file=sys.stderr)  # noqa: T201 - a command's output
        else:
            (options.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (options.folder / name).write_text(texts[name], encoding="utf-8")
    return int(options.check and bool(stale))


def _is(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main())

"""Write dashboards/grafana and dashboards/prometheus from the code; ``--check`` says what is not current, and fails.

PYTHONPATH=dashboards python -m sojourn_dashboards [--check] [FOLDER]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import yaml

from sojourn_dashboards import DASHBOARDS, model
from sojourn_dashboards.alerts import provisioning
from sojourn_dashboards.prometheus_file import page, rule_file

HOME = Path(__file__).parents[1]
NOTE = "# Written by python -m sojourn_dashboards from dashboards/sojourn_dashboards/{}: change it there.\n"


class _Dumper(yaml.SafeDumper):
    """YAML with text of several lines, such as SQL, as literal blocks."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


def files() -> dict[str, str]:
    """Return path under the folder -> content."""
    models = {name: model(name) for name in DASHBOARDS}
    panels = {name: {panel["title"]: panel["id"] for panel in board["panels"]} for name, board in models.items()}
    boards = {
        f"grafana/dashboards/{name}.json": json.dumps(board, indent=2, ensure_ascii=False) + "\n"
        for name, board in models.items()
    }
    return boards | {
        "grafana/provisioning/alerting/sojourn.yaml": _yaml("alerts.py", provisioning(panels)),
        "prometheus/rules/sojourn.yaml": _yaml("prometheus_*.py", rule_file()),
        "prometheus.md": page(),
    }


def _yaml(sources: str, content: object) -> str:
    text = yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)
    return NOTE.format(sources) + text


def main(arguments: list[str] | None = None) -> int:
    """Write or check the files; return 1 if ``--check`` finds a file that is not current."""
    parser = argparse.ArgumentParser(prog="sojourn_dashboards", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; name the files that are not current")
    parser.add_argument("folder", nargs="?", type=Path, default=HOME)
    options = parser.parse_args(arguments)
    contents = files()
    stale = [name for name, text in contents.items() if not _is(options.folder / name, text)]
    for name in stale:
        if options.check:
            print(f"not current: {name}", file=sys.stderr)  # noqa: T201 - a command's output
            continue
        path = options.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(contents[name], encoding="utf-8")
    return int(options.check and bool(stale))


def _is(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main())

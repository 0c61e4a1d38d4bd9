"""The JSON type-checks against Grafana's own @grafana/schema: all of it, and each panel's options by its kind."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from dashboards_support import boards, panels

PACKAGES = Path(__file__).parent / "schema" / "package.json"
KINDS = {
    "stat": "Stat",
    "timeseries": "TimeSeries",
    "table": "Table",
    "barchart": "BarChart",
    "heatmap": "Heatmap",
    "trend": "Trend",
    "text": "Text",
}
NO_SCHEMA = {"row", "traces"}  # a row has no options; the trace view's are not in the package
WITHOUT_FIELDS = {"stat", "text"}
# JSON has an enum's value where TypeScript wants its member; nothing else is let through.
JSON_OF = """
type Json<T> = T extends string ? `${T}` : T extends number ? number : T extends boolean | null | undefined ? T
    : T extends Array<infer U> ? Array<Json<U>> : T extends object ? { [K in keyof T]: Json<T[K]> } : T;
"""


@pytest.fixture(scope="module")
def tsc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the compiler and the schema in it."""
    for command in ("node", "npm"):
        if not shutil.which(command):
            pytest.skip(f"{command} is not installed: the dashboards' JSON is not type-checked")
    folder = tmp_path_factory.mktemp("schema")
    shutil.copy(PACKAGES, folder)
    command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        pytest.skip(f"npm could not install @grafana/schema, so the JSON is not type-checked: {done.stderr[-300:]}")
    return folder


def checked(folder: Path, boards_: dict[str, dict[str, Any]]) -> str:
    """What the compiler has to say."""
    home = "@grafana/schema/dist/esm/raw/composable"
    parts = ["import type { Dashboard } from '@grafana/schema';", JSON_OF]
    parts += [
        f"import type * as {n} from '{home}/{kind}/panelcfg/x/{n}PanelCfg_types.gen';" for kind, n in KINDS.items()
    ]
    for number, board in enumerate(boards_.values()):
        parts.append(constant(f"board{number}", "Json<Dashboard>", board))
        for panel in panels(board):
            if panel["type"] in NO_SCHEMA:
                continue
            name, at = KINDS[panel["type"]], f"{number}_{panel['id']}"
            parts.append(constant(f"options{at}", f"Json<Partial<{name}.Options>>", panel.get("options", {})))
            custom = panel.get("fieldConfig", {}).get("defaults", {}).get("custom")
            if custom is not None and panel["type"] not in WITHOUT_FIELDS:
                parts.append(constant(f"fields{at}", f"Json<Partial<{name}.FieldConfig>>", custom))
    (folder / "boards.ts").write_text("\n".join(parts))
    options = ["--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022"]
    command = ["node", "node_modules/typescript/bin/tsc", *options, "boards.ts"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False).stdout


def constant(name: str, kind: str, value: object) -> str:
    return f"export const {name}: {kind} = {json.dumps(value, indent=1)};"


def test_the_json_fits_the_schema(tsc: Path) -> None:
    assert checked(tsc, boards()) == ""


@pytest.mark.parametrize(
    "spoilt",
    [
        lambda board: board["panels"][1].update(gridPos={"x": "0"}),
        lambda board: board.update(schemaversion=42),
        *(
            pytest.param(each, marks=pytest.mark.thorough)
            for each in (
                lambda board: board["panels"][1]["options"].update(graphMode="lines"),
                lambda board: board["panels"][1]["options"].update(colour="red"),
                lambda board: board["templating"]["list"][0].update(multi="yes"),
            )
        ),
    ],
)
def test_the_check_sees_what_does_not_fit(tsc: Path, spoilt: Any) -> None:
    board = boards()["verdict"]
    spoilt(board)
    assert "error TS" in checked(tsc, {"verdict": board})


def test_every_kind_of_panel_is_known_here() -> None:
    used = {panel["type"] for board in boards().values() for panel in board["panels"]}
    assert used <= set(KINDS) | NO_SCHEMA

"""Writes requests.yaml, a test for `vector test`, from tests/vectors/log_lines.json. Run it when the table changed.

Vector builds its whole topology once for each test, which takes a second; so the table is one test with an input and an
output for each line. A line's number in the table is in the name of its file: no row can be taken for another's.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TABLE = HERE.parents[2] / "tests" / "vectors" / "log_lines.json"
TARGET = HERE / "requests.yaml"
HOST, POSITION = "edge-1", 4711


def text() -> str:
    """Return the text of requests.yaml."""
    table = json.loads(TABLE.read_text("utf-8"))
    inputs = [f"      - {json.dumps(_input(i, case))}" for i, case in enumerate(table["cases"])]
    outputs = []
    for i, case in enumerate(table["cases"]):
        outputs.append(f"      # {i}: {json.dumps(case['name'])}")
        outputs.append(f"      - {json.dumps(_output(i, case, table['row_empty']))}")  # JSON is YAML, too
    head = ["# Made by generate.py from tests/vectors/log_lines.json.", "tests:", "  - name: every line of the table"]
    return "\n".join([*head, "    inputs:", *inputs, "    outputs:", *outputs]) + "\n"


def _file(number: int) -> str:
    return f"/var/log/sojourn/{number}.jsonl"


def _line(case: dict[str, Any]) -> bytes:
    return base64.b64decode(case["line_base64"]) if "line_base64" in case else case["line"].encode()


def _input(number: int, case: dict[str, Any]) -> dict[str, Any]:
    line = base64.b64encode(_line(case)).decode()
    event = f'"message": decode_base64!("{line}"), "file": "{_file(number)}", "host": "{HOST}", "offset": {POSITION}'
    return {"insert_at": "requests", "type": "vrl", "source": f". = {{ {event} }}"}


def _output(number: int, case: dict[str, Any], empty: dict[str, Any]) -> dict[str, Any]:
    source = f"{HOST}:{_file(number)}"
    if case["reason"] is None:
        where = {"source": source, "position": POSITION, "line_bytes": len(_line(case)) + 1}
        row = base64.b64encode(json.dumps({**empty, **case["row"], **where}).encode()).decode()
        place, check = "requests", f'. == parse_json!(decode_base64!("{row}"))'
    else:
        row = {"kind": "requests", "source": source, "position": POSITION, "line_bytes": len(_line(case)) + 1}
        row["reason"] = case["reason"]
        same = " && ".join(f".{name} == {json.dumps(value)}" for name, value in row.items())
        place, check = "dead_letters", f"{same} && is_float(.time) && is_string(.raw) && length(.) == 7"
    return {"extract_from": place, "conditions": [{"type": "vrl", "source": check}]}


if __name__ == "__main__":
    TARGET.write_text(text(), "utf-8")

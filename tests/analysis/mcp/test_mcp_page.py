"""The session of the how-to page is a real one: its calls are run, its answers are parts of the real answers."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from mcp_support import EXAMPLES, session
from sojourn.mcp.tools import tools

DOCS = EXAMPLES.parent
PAGE = (DOCS / "how-to/ask-with-an-agent.md").read_text()
REFERENCE = (DOCS / "reference/mcp.md").read_text()
FOLDER = "/srv/shop"


def lacks(part: Any, whole: Any, path: str = "") -> list[str]:
    """Where an excerpt says something else than the whole; entries of a list are in order, not all of them."""
    if isinstance(part, dict):
        if not isinstance(whole, dict) or not part.keys() <= whole.keys():
            return [path]
        return [each for name in part for each in lacks(part[name], whole[name], f"{path}.{name}")]
    if isinstance(part, list):
        if not isinstance(whole, list) or bool(part) != bool(whole):
            return [path]
        rest = iter(whole)
        return [f"{path}[]" for each in part if all(lacks(each, entry) for entry in rest)]
    same = pytest.approx(part, rel=1e-6) == whole if isinstance(part, float) else part == whole
    return [] if same else [f"{path}: {whole!r}"]


def test_an_excerpt_is_compared() -> None:
    whole = {"a": [{"b": 1, "c": 2}, {"b": 3}], "d": 1.0, "e": []}
    assert lacks({"a": [{"b": 1}, {"b": 3}], "d": 1.0, "e": []}, whole) == []
    for part in ({"a": [{"b": 3}, {"b": 1}]}, {"a": []}, {"d": 1.1}, {"e": [1]}, {"f": 1}, {"a": [{"c": 3}]}):
        assert lacks(part, whole), part


def test_the_session_of_the_page_is_real(tmp_path: Path) -> None:
    for name in ("shop-spans.jsonl.gz", "shop.jsonl.gz"):
        shutil.copyfile(EXAMPLES / name, tmp_path / name)
        os.utime(tmp_path / name, (1.8e9, 1.8e9))
    blocks = [json.loads(block) for block in re.findall(r"^```json\n(.*?)^```", PAGE, re.M | re.S)]
    assert blocks.pop(0)["mcpServers"]["sojourn"]["args"][0] == "mcp"
    calls, answers = blocks[::2], blocks[1::2]
    assert len(calls) == len(answers) > 3
    with session(str(tmp_path)) as server:
        for call, answer in zip(calls, answers, strict=True):
            values = server.values(call["tool"], **call["arguments"])
            real = json.loads(json.dumps(values).replace(str(tmp_path), FOLDER))
            assert (call, lacks(answer, real)) == (call, [])


def test_the_reference_names_every_tool_and_what_is_left_out() -> None:
    assert all(f"`{name}`" in REFERENCE for name in tools())

"""Upstreams at Unix sockets give the figures of the same upstreams at ports, in every analysis of backends."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
import sojourn

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "shop.jsonl.gz"
ADDRESS = re.compile(r"10\.0\.0\.(\d+):(\d+)")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's log with ``unix:/run/app-2.8000.sock`` in place of ``10.0.0.2:8000``."""
    path = tmp_path_factory.mktemp("unix") / "access.jsonl"
    text = gzip.decompress(EXAMPLE.read_bytes()).decode()
    replaced, count = ADDRESS.subn(r"unix:/run/app-\1.\2.sock", text)
    assert count > 1000
    path.write_text(replaced)
    return path


def as_addresses(result: Any) -> Any:
    """Return the JSON of a result with ports in place of the sockets."""
    return json.loads(re.sub(r"unix:/run/app-(\d+)\.(\d+)\.sock", r"10.0.0.\1:\2", json.dumps(result.to_dict())))


@pytest.mark.parametrize("question", ["split", "blame", "depth", "goodput", "whatif"])
def test_figures_do_not_depend_on_the_kind_of_address(log: Path, question: str) -> None:
    options: dict[str, Any] = {"split": {"by": "upstream"}, "whatif": {"variants": [{"workers": "+1"}]}}.get(
        question, {}
    )
    run = getattr(sojourn, question)
    expected = run(EXAMPLE, **options).to_dict()
    assert "10.0.0." in json.dumps(expected) or question in ("blame", "goodput", "whatif")
    assert as_addresses(run(log, **options)) == json.loads(json.dumps(expected))


def test_list_of_attempts_and_redirects(tmp_path: Path) -> None:
    """Sockets and ports mixed in one list, as nginx writes attempts (", ") and internal redirects (" : ")."""
    record = json.loads(gzip.decompress(EXAMPLE.read_bytes()).splitlines()[0])
    record |= {
        "upstream_addr": "unix:/run/a.sock, 127.0.0.1:80 : unix:/run/b.sock",
        "upstream_status": "502, 200 : 200",
        **dict.fromkeys(
            ("upstream_connect_time", "upstream_header_time", "upstream_response_time"), "-, 0.001 : 0.001"
        ),
    }
    path = tmp_path / "access.jsonl"
    path.write_text(json.dumps(record) + "\n")
    (row,) = sojourn.read(path).rows.select("upstream", "attempts").collect().iter_rows(named=True)
    assert row == {"upstream": "unix:/run/b.sock", "attempts": 3}

"""The title of a page: the services, or the name of the file."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
import sojourn
from analysis_support import line
from sojourn.analyses.split.page import write_split_page
from sojourn.model.formatting import printable

LOG = "access of <today>.jsonl"


@pytest.mark.parametrize(
    ("services", "title"),
    [
        ((), "access of &lt;today&gt;.jsonl"),
        (("shop",), "shop"),
        (("shop", "<api>"), "shop and &lt;api&gt;"),
        (("a", "b", "c"), "a, b and c"),
        (("a", "b", "c", "d", "e"), "a, b and 3 more"),
    ],
)
def test_title_is_the_services_or_the_file_without_its_folders(
    tmp_path: Path, services: tuple[str, ...], title: str
) -> None:
    log, page = tmp_path / LOG, tmp_path / "page.html"
    seconds = [(name, f"{9 - number}.000") for number, name in enumerate(services)] or [("", "1.000")]
    log.write_bytes(b"".join(line(service=name, request_time=took) for name, took in seconds) + line(service=""))
    write_split_page(sojourn.split(log), page)
    text = page.read_text()
    assert re.findall(r"<h1>(.*?)</h1>", text) == [title]
    assert re.findall(r"<title>(.*?)</title>", text) == [f"{title} – sojourn"]
    assert f"({printable(log, 60)})" in html.unescape(text)

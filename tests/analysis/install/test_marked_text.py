"""Changes of a text by marked lines: the inverse returns every byte, whatever the text and the places are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sojourn.install.marked_text import Change, changed, is_changed, restored
from sojourn.nginx.syntax import parsed

WORDS = st.sampled_from(
    ["proxy_pass http://a;", "set $a 1;", 'add_header X "a # b; }";', "\\# x;", "location / {", "}", "server {",
     "# a comment", "#", "\n", "\n", "\r\n", "\t", "  ", "proxy_set_header\n  X-A\n  b;", "é;", "log_format a 'x\ny';"]
)  # fmt: skip
TEXTS = st.lists(WORDS, max_size=14).map("".join)


def directives(text: str) -> list[tuple[int, int]]:
    """Return the characters of each directive of a text; none where it is no configuration."""
    try:
        root = parsed(text)
    except Exception:  # whatever is no configuration has no place for a change
        return []
    return [(each.place.begin, each.close) for each in root.all("proxy_pass", "set", "add_header", "proxy_set_header")]


@settings(max_examples=400)
@given(TEXTS, st.data())
def test_restores_every_byte(text: str, data: st.DataObject) -> None:
    places = directives(text)
    changes = []
    for begin, end in places:
        kind = data.draw(st.sampled_from(["added", "off", "both", "none"]))
        if kind in ("added", "both"):
            changes.append(Change(end, end, data.draw(st.integers(0, 1)), ("include a;", "set $b 2;"), "  "))
        if kind in ("off", "both"):
            changes.append(Change(begin, end, 0))
    after = changed(text, changes)
    assert is_changed(after) == bool(changes)
    assert restored(after) == text


@settings(max_examples=200)
@given(TEXTS, st.data())
def test_changes_what_they_should(text: str, data: st.DataObject) -> None:
    places = directives(text)
    if not places:
        return
    begin, end = data.draw(st.sampled_from(places))
    before = parsed(text)
    added = parsed(changed(text, [Change(end, end, 0, ("include a;",))]))
    assert [each.name for each in added.all("include")] == ["include"]
    names = ("proxy_pass", "set", "add_header", "proxy_set_header")
    off = parsed(changed(text, [Change(begin, end, 0)]))
    assert len(list(off.all(*names))) == len(list(before.all(*names))) - 1


BLOCK = "location / {\n  proxy_pass http://a:80;\n}\n"
SPLIT = "set $x 1; set $y 2;\n"


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        # Lines around those that were added change, move or disappear.
        (lambda text: text.replace("a:80", "b:81"), BLOCK.replace("a:80", "b:81") + SPLIT),
        (lambda text: f"# new\n{text}# end\n", f"# new\n{BLOCK}{SPLIT}# end\n"),
        (lambda text: text.replace("}\n", "  deny all;\n}\n"), BLOCK.replace("}\n", "  deny all;\n}\n") + SPLIT),
        # A comment behind the part of a line that was split: the rest of the line must not become a part of it.
        (lambda text: text.replace("$x 1;", "$x 1; # one"), BLOCK + "set $x 1; # one\n set $y 2;\n"),
    ],
)
def test_restores_after_edits_around_its_lines(edit: Callable[[str], str], expected: str) -> None:
    text = BLOCK + SPLIT
    changes = [Change(end, end, 0, ("include a;",), "  ") for _, end in directives(text)[:2]]
    after = changed(text, changes)
    assert after.count("include a;") == 2
    assert restored(edit(after)) == expected

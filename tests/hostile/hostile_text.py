"""Text that wants to be more than text, and what it must look like where it is shown."""

from __future__ import annotations

import re
import unicodedata

# The effect that each tries to have on a display. None holds a space or a comma: nginx's lists are divided by those.
PIECES = {
    "colour": "\x1b[31mR",
    "title": "\x1b]0;own\x07",
    "clipboard": "\x1b]52;c;ZQ==\x07",
    "hyperlink": "\x1b]8;;http://evil.test\x1b\\k\x1b]8;;\x1b\\",
    "c1": "\x9b31mC\x9d0;t\x9c",
    "overwrite": "o\rv\be\x00r\x7f\n\v\x85\u2028\u2029",
    "bidi": "\u202egnp\u2066\u2069\u200f\u061c",
    "unseen": "u\u200bn\u00ads\u2060e\ufeff\u3164e\u115f\u034fn\ufe0f\U000e0041\u2800",
    "element": "</script></textarea><script>alert(1)</script><img/src=x/onerror=alert(2)>",
    "attribute": "\"'onmouseover=alert(3)/autofocus/onfocus=alert(4)//<svg/onload=alert(5)>",
    "template": "{{7*7}}{%raw%}${7*7}#{7*7}%s%n{0.__class__}",
    "query": "';DROP/**/TABLE/**/requests;--\\'{x:String}`a`",
    "markup": "[red]m[/red][link=http://evil.test]x[/link][/]:smile:[bold",
    "markdown": "[a](javascript:alert(6))|`b`|![c](http://evil.test/c.png)\\|&lt;",
    "expression": 'datum[\'a\'].b.c[0]\\.d{"signal":"alert(7)"}',
    "path": "../../../etc/passwd/..\\..\\x",
    "formula": "=cmd|'/C\u00a0calc'!A0",
    "entity": "&#60;script&#62;alert(8)&amp;&copy",
    "letters": "Ünïcödé-漢字-\U0001f600",
}
NAMES = tuple(PIECES)

# Unix's line end is what separates lines of output, and the only one of these that may stand in it.
_OBEYED = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def name(field: str, first: int) -> str:
    """A name of that field which begins with the piece of that number, and has all of the others behind it."""
    order = [NAMES[(first + step) % len(NAMES)] for step in range(len(NAMES))]
    return f"{field}{first}" + "".join(PIECES[each] for each in order)


def bare(first: int) -> str:
    """The pieces themselves, with nothing before the first: a formula is one only at the beginning."""
    return name("", first).removeprefix(str(first))


def obeyed(text: str) -> set[str]:
    """The characters of a text that a terminal would interpret or hide, except line ends."""
    return {c for c in text if (unicodedata.category(c) in _OBEYED and c != "\n") or _UNSEEN.match(c)}


def uncoloured(text: str) -> str:
    """A text without the colours, of which only our own can be there."""
    return _COLOUR.sub("", text)

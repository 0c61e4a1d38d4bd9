"""Change the text of a configuration by marked lines, and remove exactly these lines again.

Every line that is added ends with a mark, and every line that is switched off begins with one. The marks say whether a
line break of the original was split, so that ``restored`` returns the original byte for byte, also if other lines were
edited in the meantime.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sojourn.nginx.syntax import ends_in_comment

ADDED = "# sojourn: installed"
ADDED_IN_LINE = f"{ADDED}, in line"
"""The first of several added lines that stand inside a line of the original: the line break before it is added, too."""
OFF = "# sojourn: off:"
OFF_IN_LINE = "# sojourn: off, in line:"
OFF_BEGIN = "# sojourn: off, in line before:"
OFF_END = "# sojourn: off, in line behind:"
"""Of a part of a line that is switched off, the line breaks around it are added; of several lines, the one before the
first and the one behind the last."""
_REST = re.compile(r"[ \t]*(?:#[^\n]*|\r)?(?:\n|$)")
_ADDED_LINE = re.compile(rf"{re.escape(ADDED)}(?P<split>, in line)?[ \t]*\r?\n?$")
_OFF_LINE = re.compile(rf"(?P<mark>{'|'.join(map(re.escape, (OFF_IN_LINE, OFF_BEGIN, OFF_END, OFF)))})")


@dataclass(frozen=True, order=True)
class Change:
    """A change of a text.

    Attributes:
        begin, end: characters of the text; equal for lines that are added behind ``begin``.
        order: of several changes at one place, the first has the smallest number.
        lines: the lines to add; empty to switch the characters off.
        indent: the white space before each added line.
    """

    begin: int
    end: int
    order: int
    lines: tuple[str, ...] = ()
    indent: str = ""


def changed(text: str, changes: Iterable[Change]) -> str:
    """Return a text after changes that do not overlap."""
    eol = "\r\n" if "\r\n" in text else "\n"
    for each in sorted(set(changes), reverse=True):
        text = _with_lines(text, each, eol) if each.lines else _without(text, each, eol)
    return text


def _with_lines(text: str, change: Change, eol: str) -> str:
    at_begin = change.begin == 0
    rest = _REST.match(text, change.begin)
    whole = at_begin or (rest is not None and rest[0].endswith("\n"))
    marks = [ADDED if whole or number else ADDED_IN_LINE for number in range(len(change.lines))]
    added = eol.join(
        f"{change.indent}{line} {mark}".replace("\n", eol) for line, mark in zip(change.lines, marks, strict=True)
    )
    at = rest.end() if whole and not at_begin and rest is not None else change.begin
    return text[:at] + ("" if whole else eol) + added + eol + text[at:]


def _without(text: str, change: Change, eol: str) -> str:
    begin = text.rfind("\n", 0, change.begin) + 1
    rest = _REST.match(text, change.end)
    if rest is not None and not text[begin : change.begin].strip():
        end = rest.end()
        lines = text[begin:end].splitlines(keepends=True)
        return text[:begin] + "".join(OFF + line for line in lines) + text[end:]
    lines = text[change.begin : change.end].splitlines(keepends=True)
    marks = [OFF_IN_LINE] if len(lines) == 1 else [OFF_BEGIN, *[OFF] * (len(lines) - 2), OFF_END]
    off = "".join(mark + line for mark, line in zip(marks, lines, strict=True))
    return text[: change.begin] + eol + off + eol + text[change.end :]


def restored(text: str, keep: str | None = None) -> str:
    """Return a text without the lines that ``changed`` added, and with those that it switched off.

    Args:
        text: the text.
        keep: added lines that contain this text remain.
    """
    done: list[str] = []
    join_next = False
    for line in re.findall(r"[^\n]*\n|[^\n]+$", text):
        added, off = _ADDED_LINE.search(line), _OFF_LINE.match(line)
        if added is not None and (keep is None or keep not in line):
            if added["split"]:
                _join(done)
            continue
        if off is not None:
            if off["mark"] in (OFF_IN_LINE, OFF_BEGIN) or join_next:
                _join(done)
            done.append(line[off.end() :])
            join_next = off["mark"] in (OFF_IN_LINE, OFF_END)
            continue
        if join_next:
            _join(done)
            join_next = False
        done.append(line)
    if join_next:
        _join(done)
    return "".join(done)


def is_changed(text: str) -> bool:
    """Return whether a text has lines that ``changed`` added or switched off."""
    return restored(text) != text


def _join(lines: list[str]) -> None:
    """Remove the line break at the end, unless it ends a comment, which would hide what follows."""
    if lines and not ends_in_comment(lines[-1]):
        lines[-1] = re.sub(r"\r?\n$", "", lines[-1])

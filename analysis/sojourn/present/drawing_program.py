"""The program of the drawing process: a specification per line on standard input, an SVG per line on standard output.

It is started as a file, imports vl-convert alone, from the folder that is its argument, starts Vega before the first
specification arrives, and ends with its input. The lines are JSON: a request ``{"version": ..., "spec": ...}`` or
``{"version": ..., "libraries": true}``, an answer ``{"text": ...}`` or ``{"error": ...}``.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from contextlib import suppress
from typing import Any, BinaryIO

FIRST = {
    "data": {"values": [{"x": 1}]},
    "mark": "line",
    "encoding": {"x": {"field": "x", "type": "quantitative"}, "y": {"field": "x", "type": "quantitative"}},
}
"""A chart that makes Vega load what every chart needs."""

_TAG = re.compile(r"<[^<>]+>")
_DESCRIPTIONS = re.compile(r' (?:role|aria-[a-z]+|pointer-events)="[^"]*"')
_DEFAULTS = re.compile(r' (?:fill-|stroke-)?opacity="1"')
_PLACES = re.compile(r' (?:d|transform|x2|y2)="[^"]*"')
_LONG = re.compile(r"-?\d+\.\d{3,}(?:e-?\d+)?")
_RGB = re.compile(r'"rgb\((\d+), (\d+), (\d+)\)"')
_EMPTY = re.compile(r'<path class="foreground" d="" display="none"/>')


def compact(drawing: str) -> str:
    """Return an SVG that looks the same in half the bytes, for a page that describes the picture itself.

    Descriptions of single marks, default values and empty paths are left out; positions have a resolution of a
    hundredth of a pixel.
    """
    # Only inside of tags: a text may look like an attribute.
    return _EMPTY.sub("", _TAG.sub(lambda tag: _compact_tag(tag[0]), drawing))


def _compact_tag(tag: str) -> str:
    tag = _DEFAULTS.sub("", _DESCRIPTIONS.sub("", tag))
    if 'stroke="' not in tag:
        tag = tag.replace(' stroke-width="0"', "")
    tag = _PLACES.sub(lambda attribute: _LONG.sub(_rounded, attribute[0]), tag)
    return _RGB.sub(lambda colour: '"#{:02x}{:02x}{:02x}"'.format(*map(int, colour.groups())), tag)


def _rounded(number: re.Match[str]) -> str:
    text = f"{float(number[0]):.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def answer(line: bytes) -> dict[str, str]:
    """Return the answer to a request."""
    import vl_convert  # noqa: PLC0415 - ``compact`` does not need it

    request: dict[str, Any] = json.loads(line)
    try:
        if "spec" in request:
            return {"text": compact(vl_convert.vegalite_to_svg(request["spec"], vl_version=request["version"]))}
        return {"text": vl_convert.javascript_bundle(vl_version=request["version"])}  # type: ignore[call-arg]
    except Exception as error:  # of any kind: the other process raises it
        return {"error": f"{error}"}


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until the input ends."""
    import vl_convert  # noqa: PLC0415 - from the folder that the program is started with

    with suppress(Exception):  # the answer to a request says so
        vl_convert.vegalite_to_svg(FIRST)
    for line in requests:
        answers.write(json.dumps(answer(line)).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    sys.path.append(sys.argv[1])
    # An interrupt from the terminal reaches both processes, and the other one ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(BrokenPipeError):
        serve(sys.stdin.buffer, sys.stdout.buffer)
    # Freeing Vega takes its time.
    os._exit(0)

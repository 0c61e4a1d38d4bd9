"""W3C's extended log format, as IIS and CloudFront write it: a line of #Fields names the columns of those behind it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sojourn.readers.formats.fields import Field
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.formats.template import Part, Variable, joined

HEAD = "#Fields:"
_FIELDS = {
    "cs-method": Field("method"), "cs-uri-stem": Field("uri"), "sc-status": Field("status"),
    "c-ip": Field("remote_addr"), "cs-host": Field("host"), "cs(Host)": Field("host"), "x-host-header": Field("host"),
    "sc-bytes": Field("bytes_sent"), "cs-bytes": Field("request_length"), "cs-version": Field("protocol"),
    "cs-protocol-version": Field("protocol"), "x-edge-request-id": Field("request_id"),
    "x-edge-result-type": Field("handling"),
}  # fmt: skip
_INSTANT = r"\d{4}-\d\d-\d\d[ \t][\d:.]{8,15}"


def w3c_format(lines: Sequence[str]) -> LineFormat | None:
    """Return the format that the last line of #Fields among these names; None without one."""
    heads = [line for line in lines if line.startswith(HEAD)]
    if not heads:
        return None
    names = heads[-1].removeprefix(HEAD).split()
    is_cloudfront = "x-edge-location" in names
    of_lines = [line for line in lines if not line.startswith("#")]
    tabs = sum("\t" in line for line in of_lines) > 0.5 * len(of_lines) if of_lines else is_cloudfront
    blank = "\t" if tabs else " "
    parts: list[Part] = []
    for name in names:
        if name == "time" and parts and isinstance(parts[-1], Variable) and parts[-1].text == "date time":
            continue
        parts += [blank, Variable("date time" if name == "date" else name, _field(name, cloudfront=is_cloudfront))]
    product = "CloudFront" if is_cloudfront else "IIS"
    unit = "s" if is_cloudfront else "ms"
    return LineFormat(
        "w3c", f"W3C's extended format, as {product} writes it", tuple(joined(parts[1:])),
        notes=(f"Its time-taken is in {unit}, as {product} writes it. Its stamps are of the end, in UTC.",),
    )  # fmt: skip


def _field(name: str, *, cloudfront: bool) -> Field:
    if name == "date":
        return Field("end", "iso", _INSTANT)
    if name == "time-taken":
        return Field("request_time", "s" if cloudfront else "ms", r"[\d.]+|-")
    if name == "x-edge-result-type" and not cloudfront:
        return Field("handling_of_edge", pattern=r"\S+")
    field = _FIELDS.get(name, Field(re.sub(r"\W+", "_", name).strip("_")))
    return Field(field.name, field.unit, r"[^ \t]+")

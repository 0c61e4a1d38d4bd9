"""The include files of nginx for a location, one per directive that passes requests to an app, from one table."""

from __future__ import annotations

from sojourn.doctor.nginx_headers import (
    FAMILIES,
    HEADER_FAMILIES,
    hide_lines,
    setter,
)
from sojourn.doctor.nginx_records import FULL, LEAN, RECORDS, Record

_COMMENTS = {
    "X-Request-Start": "The time at which nginx builds the request for the app: after the client's body is read, once "
    "for all attempts.",
    "X-Queue-Start": "Removed: a client can set it, and some agents read it in addition to X-Request-Start.",
    "traceparent": "The trace context: by default what the client sends, as without this file ($sojourn_trace in "
    "sojourn.conf).",
}
_COMMENTS_ON_ID = {
    FULL: "The id that joins the log, the spans and the packets of a request.",
    LEAN: "The request id: by default none, and a client's is removed ($sojourn_request_id in sojourn_lean.conf).",
}
_EXAMPLES = {
    "proxy": "proxy_set_header Host $host;",
    "grpc": "grpc_set_header Host $host;",
    "fastcgi": "include fastcgi_params;",
    "uwsgi": "include uwsgi_params;",
    "scgi": "include scgi_params;",
}


def includes() -> dict[str, str]:
    """Return file name -> content."""
    return {record.include_name(family): _include(record, family) for record in RECORDS.values() for family in FAMILIES}


def _include(record: Record, family: str) -> str:
    header = f"""\
# Include next to every {family}_pass whose queue is to be measured:  {record.include_line(family)}
#
# nginx inherits {setter(family)} and {family}_hide_header from the level above only if a level has none of its own.
# This file contains both, so repeat in this location the lines of the levels above ({_EXAMPLES[family]} and
# so on). Additional lines are possible, except for the names below: nginx would send both.
"""
    if family not in HEADER_FAMILIES:
        header += f"#\n# {family}_pass sends headers as parameters: X-Request-Start is HTTP_X_REQUEST_START.\n"
    lines = [(each.name, each.line(family, record.value(each))) for each in record.headers]
    # The values of neighbouring lines begin in one column.
    width = max(len(line.split(" ", 2)[1]) for _, line in lines)
    comments = {**_COMMENTS, "X-Request-ID": _COMMENTS_ON_ID[record]}
    blocks = []
    for name, line in lines:
        directive, parameter, value = line.split(" ", 2)
        comment = f"\n# {comments[name]}\n" if name in comments else ""
        blocks.append(f"{comment}{directive} {parameter:<{width}} {value}\n")
    hidden = "".join(f"{line}\n" for line in hide_lines(family))
    return f"{header}{''.join(blocks)}\n# The app's measurements are logged and not sent to the client.\n{hidden}"

"""The two records that nginx can write, full and lean, and Sojourn's include files for each."""

from __future__ import annotations

from dataclasses import dataclass

from sojourn.doctor.nginx_headers import (
    FAMILIES,
    GUARDED,
    REQUEST_HEADERS,
    RequestHeader,
    hide_lines,
)

INCLUDES_FOLDER = "sojourn"
WITHOUT_NJS = "sojourn_without_njs.conf"
"""The file at http level of the full record, for an nginx without njs."""


@dataclass(frozen=True)
class Record:
    """What nginx stamps and logs.

    Attributes:
        name: full or lean.
        http: the file that is included at http level.
        prefix: how the names of the files for locations begin; the family follows.
        variable: the variable that its file at http level defines, and that of the other record does not.
        stamp: the value of ``X-Request-Start``.
        logged: the variable that is logged as ``request_start``, without ``$``.
        headers: the headers that the files for locations set.
    """

    name: str
    http: str
    prefix: str
    variable: str
    stamp: str
    logged: str
    headers: tuple[RequestHeader, ...]

    def value(self, header: RequestHeader) -> str:
        """Return what nginx sends in a header."""
        return self.stamp if header is REQUEST_HEADERS[0] else header.value

    def include_name(self, family: str) -> str:
        """Return the name of the include file for a family, ``sojourn_proxy.conf``."""
        return f"{self.prefix}{family}.conf"

    def include_line(self, family: str, folder: str = INCLUDES_FOLDER) -> str:
        """Return the line that includes the file for a family."""
        return f"include {folder}/{self.include_name(family)};"

    def include_lines(self, family: str) -> list[str]:
        """Return the lines of a family's include file; the file at http level defines their variables."""
        return [header.line(family, self.value(header)) for header in self.headers] + hide_lines(family)


FULL = Record(
    "full", "sojourn.conf", "sojourn_", "sojourn_stamp_sent", "$sojourn_stamp_sent", "sojourn_logged_start",
    REQUEST_HEADERS,
)  # fmt: skip
LEAN = Record(
    "lean", "sojourn_lean.conf", "sojourn_lean_", "sojourn_start", "t=$sojourn_start", "sojourn_start", GUARDED
)
RECORDS = {record.name: record for record in (FULL, LEAN)}
SETTINGS_FILES = (
    FULL.http,
    LEAN.http,
    WITHOUT_NJS,
    "sojourn_variables.conf",
    "sojourn_server_timing.conf",
    "sojourn_status.conf",
)
"""Sojourn's files for nginx besides those of the families; ``trusted.conf`` belongs to the user."""
INCLUDE_PLACE = "the location in nginx.conf, beside proxy_pass (beside fastcgi_pass: sojourn_fastcgi.conf, and so on)"
"""Where the include for ``proxy_pass`` belongs, if the directive of the location is unknown."""


def is_of_sojourn(file: str) -> bool:
    """Return whether a file, by its name or path, belongs to Sojourn: no fix changes it."""
    return file.rpartition("/")[2] in SETTINGS_FILES or family_of_include(file) is not None


def family_of_include(name: str) -> str | None:
    """Return the family whose include file, of either record, has this name or path; None for any other file."""
    base = name.rpartition("/")[2]
    names = {record.include_name(family): family for record in RECORDS.values() for family in FAMILIES}
    return names.get(base)


def is_stamp_of_sojourn(value: str) -> bool:
    """Return whether the value of a header is the stamp of one of the records."""
    return any(f"${record.variable}" in value for record in RECORDS.values())

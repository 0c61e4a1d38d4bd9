"""Logs whose format the user gives, and tables with the roles of their columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from sojourn.model.errors import SojournError
from sojourn.nginx.syntax import configuration, parsed
from sojourn.readers.app_log import AppLogFile
from sojourn.readers.formats.app_logs import app_log_format
from sojourn.readers.formats.from_text import format_from_text
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.formats.units import Units, units_from_text
from sojourn.readers.inputs import LogFile, NamedSources, Source, SourcesLike, TableFile
from sojourn.readers.tables.roles import columns_of

_IN_A_FILE = re.compile(r"(?P<file>[^$%{}]+):(?P<name>[\w.-]+)")


def log_file(path: Source, format: str) -> LogFile:  # noqa: A002 - the word that users know
    """Return a source with its log format.

    >>> text = '$remote_addr - $remote_user [$time_local] "$request" $status $bytes_sent "$a" "$b" $msec $request_time'
    >>> sojourn.split(sojourn.log_file("docs/examples/plain.log.gz", format=f"{text} $c $d")).requests
    10500

    Args:
        path: a log file, a glob or ``-``.
        format: a name (``combined``, ``haproxy``, ``envoy``, …), the text of nginx's ``log_format``, Apache's
            ``LogFormat``, HAProxy's ``log-format`` or another of the products in ``docs/reference/log-formats.md``, or
            ``nginx.conf:NAME`` for a ``log_format`` in a configuration. A duration may have its unit behind it
            (``$request_time=ms``); units alone (``latency=ns``) leave the format to be recognised.

    Raises:
        SojournError: the format is unknown, or lacks what a request needs.
    """
    return LogFile(str(path), format_of_text(format))


def with_log_format(sources: SourcesLike, text: str | None) -> NamedSources:
    """Return sources by kind, whose logs have the format ``text``; None: each log's own, recognised by its lines.

    Raises:
        SojournError: as ``log_file``.
    """
    by_kind = NamedSources.of(sources)
    if text is None:
        return by_kind
    form = format_of_text(text)
    every = (source if "://" in str(source) else LogFile(str(source), form) for source in by_kind.every)
    return NamedSources(tuple(every), by_kind.stores, by_kind.files)


def app_log_file(path: Source, format: str) -> AppLogFile:  # noqa: A002 - the word that users know
    """Return an app log with its format, for the argument ``app_log`` of ``sojourn.split`` and others.

    >>> log = sojourn.app_log_file("gunicorn.log", '%(h)s %(t)s "%(r)s" %(s)s %(D)s %({x-request-id}i)s')

    Args:
        path: a file or a glob.
        format: gunicorn's ``access_log_format``, uWSGI's ``log-format``, morgan's format, the pattern of Tomcat or
            Jetty; JSON keys with one of these variables each; or ``sojourn``, ``rails``, ``lograge``.

    Raises:
        SojournError: the format is unknown, or has no request id or no duration.
    """
    return AppLogFile(str(path), app_log_format(format))


def with_app_log_format(files: Sequence[Source], text: str | None) -> list[Source]:
    """Return app logs, which have the format ``text``; None: each its own, recognised by its lines.

    Raises:
        SojournError: as ``app_log_file``.
    """
    if text is None:
        return list(files)
    if not files:
        raise SojournError("--app-log-format: there is no --app-log of that format")
    form = app_log_format(text)
    return [AppLogFile(str(path), form) for path in files]


def table_file(path: Source, columns: str | Mapping[str, str]) -> TableFile:
    """Return a source that is a table (CSV, TSV, Parquet; gzip and zstd too) with the roles of its columns.

    >>> roles = {"end": "end_timestamp:rel", "service": "duration:s", "route": "func"}
    >>> sojourn.split(sojourn.table_file("docs/examples/tables/azure-functions-2021.csv", columns=roles)).requests
    6

    Args:
        path: a table, a glob or ``-``.
        columns: role -> name of the column, or name:unit; or a text as ``--columns`` takes it. The roles and units are
            those of ``docs/how-to/read-a-table.md``.

    Raises:
        SojournError: a role or unit is unknown. Whether the table has these columns is checked when it is read.
    """
    return TableFile(str(path), columns_of(columns))


def with_formats(sources: SourcesLike, log_format: str | None, columns: Sequence[str] | None) -> NamedSources:
    """Return sources by kind: logs of a format, or tables with ``columns``, the texts of ``--columns``.

    Raises:
        SojournError: as ``log_file`` and ``table_file``, or both are given.
    """
    if not columns:
        return with_log_format(sources, log_format)
    if log_format is not None:
        raise SojournError("--columns is for tables, --log-format for logs: give one of them")
    by_kind, roles = NamedSources.of(sources), columns_of(columns)
    every = (source if "://" in str(source) else TableFile(str(source), roles) for source in by_kind.every)
    return NamedSources(tuple(every), by_kind.stores, by_kind.files)


def names_configuration(text: str) -> bool:
    """Return whether a text of ``--log-format`` has the form ``nginx.conf:NAME``, whether or not the file exists."""
    return _IN_A_FILE.fullmatch(text) is not None


def format_of_text(text: str) -> LineFormat | Units | None:
    """Return the format of ``--log-format``, or the units; None for Sojourn's own record.

    Raises:
        SojournError: as ``log_file``.
    """
    match = _IN_A_FILE.fullmatch(text)
    if match is None or not Path(match["file"]).is_file():
        if words := _words_of(text):
            return _format_of_words(words)
        units = units_from_text(text)
        return format_from_text(text) if units is None else units
    root, _ = configuration(Path(match["file"]))
    formats = {each.args[0]: each.args[1:] for each in root.all("log_format") if len(each.args) > 1}
    if match["name"] not in formats:
        names = ", ".join(sorted(formats)) or "none"
        raise SojournError(f"{match['file']}: there is no log_format {match['name']!r}; there is {names}")
    return _format_of_words(formats[match["name"]])


def _words_of(text: str) -> list[str]:
    """Return the words of a ``log_format`` behind its name, or of several texts in quotes; none of any other text."""
    text = text.strip().rstrip(";")
    directive = re.match(r"log_format\s+[\w.-]+\s+", text)
    if directive is None and not re.match(r"(?:escape=\w+\s+)?'", text):
        return []
    words = text[directive.end() :] if directive else text
    return parsed(f"log_format name {words};").block[0].args[1:]


def _format_of_words(words: list[str]) -> LineFormat | None:
    escape = words[0].removeprefix("escape=") if words[0].startswith("escape=") else ""
    return format_from_text("".join(words[1:] if escape else words), escape or "default")

"""The format of a log, as nginx's configuration defines it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from sojourn.doctor.log_sniff import Sniffed
from sojourn.doctor.nginx_levels import Conf
from sojourn.model.errors import SojournError
from sojourn.model.formatting import printable
from sojourn.nginx.log_format import LogFormat
from sojourn.readers.formats.detect import LENGTH, MAJORITY
from sojourn.readers.formats.from_text import format_from_text
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.formats.template import path_keys


@dataclass(frozen=True)
class ConfFormat:
    """The format of a log by a configuration.

    Attributes:
        form: the format; None: the lines are recognised by themselves.
        unseen: a sentence about a format that the configuration names and the lines do not have.
    """

    form: LineFormat | None = None
    unseen: str = ""


def conf_format(confs: Sequence[Conf], logs: Sequence[Sniffed]) -> ConfFormat:
    """Return the format in which configurations write a log.

    It is that of the ``access_log`` whose file has the log's name (a rotated log has it, too), if the lines have it; of
    a log of another name, the only format that its lines have. Sojourn's own records need none.

    Args:
        confs: the configurations.
        logs: the first lines of the files of one source.
    """
    logs = [each for each in logs if each.texts]
    if not logs or any(each.form is None and each.readable for each in logs):
        return ConfFormat()
    texts = [text for each in logs for text in each.texts]
    formats = [(fmt, form) for conf in confs for fmt in conf.log_formats.values() if (form := _line_format(fmt))]
    of_file = {name for conf in confs for name in _names_of_file(conf, [each.name for each in logs])}
    candidates = [pair for pair in formats if pair[0].name in of_file] or ([] if of_file else formats)
    fitting = {form.name: form for _, form in candidates if _fits(form, texts)}
    if len(fitting) == 1:
        return ConfFormat(next(iter(fitting.values())))
    if candidates and of_file and not fitting:
        names = printable(", ".join(sorted(fmt.name for fmt, _ in candidates)), 100)
        return ConfFormat(
            unseen=f"The lines of {printable(logs[0].name, 300)} do not have the format {names} that the configuration "
            "names for this file: they were read as what they look like."
        )
    return ConfFormat()


def _line_format(fmt: LogFormat) -> LineFormat | None:
    """Return the format of its lines; None where no request can be read from them."""
    words = fmt.directive.args[1:]
    try:
        form = format_from_text("".join(words[1:] if words and words[0].startswith("escape=") else words))
    except SojournError:
        return None
    return None if form is None else replace(form, title=f"nginx's log_format {printable(fmt.name, 60)}")


def _names_of_file(conf: Conf, logs: Iterable[str]) -> set[str]:
    """Return the names of the formats in which a configuration writes files of these names."""
    names = [PurePath(log).name for log in logs]
    lines = [each.args for each in conf.http.directive.all("access_log") if each.args]
    return {
        next((word for word in words if "=" not in word and word != "gzip"), "combined")
        for path, *words in lines
        if any(_is_of(name, PurePath(path).name) for name in names)
    }


def _is_of(name: str, file: str) -> bool:
    """Return whether a log has the name of a file, or that and what rotation appends: ``.1``, ``-20260131.gz``."""
    rest = name.removeprefix(file)
    return name.startswith(file) and (not rest or rest[0] in ".-")


def _fits(form: LineFormat, texts: Sequence[str]) -> bool:
    if form.json:
        keys = {str(path_keys(path)[0]) for path in form.paths}
        return _share(_keys(text) == keys for text in texts) > MAJORITY
    return _share(form.pattern.match(text[:LENGTH]) is not None for text in texts) > MAJORITY


def _keys(text: str) -> set[str]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return set()
    return set(value) if isinstance(value, dict) else set()


def _share(fits: Iterable[bool]) -> float:
    counts = list(fits)
    return sum(counts) / len(counts)

"""Diagnose logs: files, globs, Parquet files and run folders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from shlex import quote

from sojourn.analyses.split.result import SplitResult
from sojourn.analyses.split.run import split
from sojourn.doctor.app_servers import ANSWER_PAGE
from sojourn.doctor.conf_format import conf_format
from sojourn.doctor.facts import EXAMPLES, facts_of_rows
from sojourn.doctor.findings import ADD, ERROR, INFO, RUN, WARNING, Diagnosis, Finding
from sojourn.doctor.log_sniff import Sniffed, sniff_findings, sniffed
from sojourn.doctor.nginx_levels import Conf
from sojourn.doctor.requests import checked_requests, request_findings
from sojourn.doctor.split_findings import checked_split, refused_lines, split_findings
from sojourn.estimation.inferred import REFUSED
from sojourn.model.formatting import printable
from sojourn.model.frame import TABLE, LogFacts
from sojourn.readers.foreign_logs import IN_NGINX, SWITCH
from sojourn.readers.inputs import LogFile, NamedSources, opened_inputs
from sojourn.readers.record import INSTEAD_OF_ID
from sojourn.readers.tables.suggestion import Suggestion, suggestion_for_lines
from sojourn.sources.log_files import with_formats


def diagnosed_log(
    source: str,
    spans: Sequence[str] = (),
    since: datetime | None = None,
    on_size: Callable[[int | None], None] | None = None,
    on_progress: Callable[[int], None] | None = None,
    *,
    log_format: str | None = None,
    columns: Sequence[str] = (),
    confs: Sequence[Conf] = (),
) -> Diagnosis:
    """Return what is wrong with a log, or with a table if ``columns`` have roles.

    ``source`` is anything ``sojourn.read`` reads, except a store; ``confs`` may define its format; the others are those
    of ``diagnose``.

    Raises:
        SojournError: it cannot be read at all.
    """
    name = printable(source, 300)
    diagnosis = Diagnosis(targets=[{"name": name, "kind": "log"}])
    sources = with_formats([source], log_format, columns)
    first_lines = [] if columns else _first_lines(sources)
    if tables := [table for each in first_lines if (table := suggestion_for_lines(name, each.texts))]:
        diagnosis.findings += [_without_roles(each, name) for each in tables]
        return diagnosis
    if log_format is None and confs and not columns:
        chosen = conf_format(confs, first_lines)
        diagnosis.unseen += [chosen.unseen] if chosen.unseen else []
        if chosen.form is not None:
            sources = NamedSources.of([LogFile(source, chosen.form)])
            first_lines = _first_lines(sources)
    for each in first_lines:
        diagnosis.findings += sniff_findings(each)
    if first_lines and not any(each.readable or not each.lines for each in first_lines):
        return diagnosis
    result = split(
        sources,
        spans=list(spans),
        since=since,
        columns=("request_id", *INSTEAD_OF_ID),
        on_size=on_size,
        on_progress=on_progress,
    )
    diagnosis.findings += [_of_table(each, name) for each in result.records.formats if each.format == TABLE]
    if not result.requests:
        diagnosis.findings += refused_lines(result.records, name)
        if not result.records.read:
            diagnosis.findings.append(_empty(name))
        elif result.records.accepted:
            diagnosis.unseen.append(f"{name} holds no request in the time range.")
        return diagnosis
    findings = list(split_findings(result, name))
    facts = facts_of_rows(result.rows)
    diagnosis.connects = facts.connects
    of_requests = list(request_findings(facts, name))
    # A key that no line has is one finding, not one for each figure that needs it.
    lacking = {key for each in first_lines if each.objects for key in _EXPLAINED if key not in each.keys}
    covered = {code for key in lacking for code in _EXPLAINED[key]}
    if result.records.formats:
        covered |= REPEATING
    if columns:
        covered |= OF_THE_APP
    of_requests = [_inferred(each, result) for each in of_requests]
    diagnosis.findings += findings + [each for each in of_requests if each.code not in covered]
    diagnosis.checked += checked_split(result) + checked_requests(facts, of_requests)
    return diagnosis


# A key that no line has -> the findings that would repeat it.
_EXPLAINED = {
    "request_start": ("stamp-missing",),
    "upstream_header_time": ("spans-missing", "app-silent"),
    "service_time": ("app-silent",),
    "worker": ("worker-missing",),
    "request_id": ("ids-missing",),
}

# What an app sends to nginx; a table has it in a column or not at all.
OF_THE_APP = {"app-silent", "worker-missing"}

# Of a log in a format that is not Sojourn's own, the finding about the format says what to add.
REPEATING = {"stamp-missing", "ids-missing"}


def _inferred(finding: Finding, result: SplitResult) -> Finding:
    """Return a finding about silent apps with what was inferred in place of their times."""
    if finding.code != "app-silent" or not result.inferred:
        return finding
    how = " ".join(printable(each.sentence, 400) for each in result.inferred[:EXAMPLES])
    if any(each.result.verdict == REFUSED for each in result.inferred):
        return replace(finding, why=f"{finding.why} {how}")
    return replace(finding, severity=WARNING, why=f"Waits and services are inferred from the log. {how} {ANSWER_PAGE}")


def _without_roles(table: Suggestion, name: str) -> Finding:
    fix = f"sojourn doctor {quote(name)} --columns {quote(table.option or 'ROLE=COLUMN:UNIT,…')}"
    return Finding("log-format", ERROR, name, table.sentence, table.remedy, fix, f"{name}:1", RUN)


def _of_table(facts: LogFacts, name: str) -> Finding:
    fix = f"sojourn split {quote(name)} --columns 'ROLE=COLUMN:UNIT,…'"
    return Finding("log-format", INFO, name, facts.sentence, facts.reading, fix, f"{name}:1", RUN)


def _first_lines(sources: NamedSources) -> list[Sniffed]:
    if "-" in sources.files:  # standard input is read once
        return []
    inputs = opened_inputs(sources)
    try:
        return [sniffed(log) for log in inputs.logs if log.size is not None]
    finally:
        inputs.close()


def _empty(name: str) -> Finding:
    return Finding(
        "log-empty",
        ERROR,
        name,
        f"{name} is empty.",
        "There were no requests yet, the log was just rotated, or nginx writes elsewhere.",
        SWITCH,
        name,
        ADD,
        into=IN_NGINX,
    )

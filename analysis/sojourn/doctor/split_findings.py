"""Check a split: refused lines, clocks, and failed checks of the audit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from shlex import quote

import polars as pl

from sojourn.analyses.audit.result import Audit
from sojourn.analyses.split.result import SplitResult
from sojourn.components.clock_offsets.correction import plain_clocks
from sojourn.doctor.findings import ADD, ERROR, INFO, REPLACE, RUN, WARNING, Finding
from sojourn.doctor.nginx_records import FULL, INCLUDE_PLACE
from sojourn.model.checks import FAIL, PASS
from sojourn.model.formatting import counted, formatted, milliseconds, percent, printable
from sojourn.model.frame import Records
from sojourn.model.redaction import displayed_line
from sojourn.readers.foreign_logs import format_of_line
from sojourn.readers.record import DROPPED_REASONS, REASONS

UNSURE = 0.01  # s of uncertainty beyond which short waits are guesses
ENOUGH = 100  # requests of a pair of clocks; fewer give no finding
SKEW = 0.1  # s between two clocks: corrected, and still worth mending
DRIFT = 50e-6  # s/s: more than a machine with NTP has
MANY_REFUSED = 0.1
MANY_COPIES = 0.01

# Reason -> (the line that mends it, what to do with it).
_MENDS = {
    "invalid_json": ("log_format sojourn escape=json", REPLACE),
    "not_an_object": ("access_log /var/log/nginx/sojourn.jsonl sojourn;", ADD),
    "missing_time": ("""',"time":"$msec"'""", ADD),
    "invalid_time": ('"time":"$msec"', REPLACE),
    "missing_request_time": ("""',"request_time":"$request_time"'""", ADD),
    "invalid_request_time": ('"request_time":"$request_time"', REPLACE),
    "missing_status": ("""',"status":"$status"'""", ADD),
    "invalid_status": ('"status":"$status"', REPLACE),
    "invalid_request_start": ('"request_start":"$sojourn_logged_start"', REPLACE),
    "invalid_upstream_time": ('"upstream_response_time":"$upstream_response_time"', REPLACE),
    "upstream_lists_differ": ('"upstream_addr":"$upstream_addr"', REPLACE),
    "damaged_compression": ("gzip -t FILE", RUN),
    "cut_while_read": ("sojourn split FILE.1 FILE", RUN),
}


def split_findings(result: SplitResult, name: str) -> Iterator[Finding]:
    """Yield what is wrong with a split of ``name``: its lines, its clocks, its audit."""
    yield from refused_lines(result.records, name)
    yield from dropped_values(result.records, name)
    yield from clock_findings(result.clock, result.audit, name)
    yield from _audit(result.audit, name, result.requests)


def refused_lines(records: Records, name: str) -> Iterator[Finding]:
    """Yield the lines that could not be used, by reason."""
    for reason, count in sorted(records.reasons.items(), key=lambda pair: -pair[1]):
        if reason == "incomplete_line" and count == 1:
            continue  # the line that is being written
        share = count / records.read if records.read else 0.0
        line = next((each for each in records.rejects if each["reason"] == reason), None)
        where = name
        if line is not None and "line" in line:
            where = f"{printable(line['source'], 300)}:{line['line']}"
        because = REASONS.get(reason, "not known")
        fix, how = _MENDS.get(reason, _listing(name))
        if line is not None and (foreign := format_of_line(str(line["raw"]))) is not None:
            because = f"{because}; the first is a line of {foreign.name}"
            fix, how = _listing(name)
        begins = f" It begins: {printable(displayed_line(line['raw']), 80)}" if line is not None and line["raw"] else ""
        yield Finding(
            "lines-refused",
            ERROR if share >= MANY_REFUSED else WARNING,
            printable(reason),
            f"{count:,} of {counted(records.read, 'line')} {'was' if count == 1 else 'were'} refused "
            f"({printable(reason)}): {because}.",
            f"Their requests are missing from every figure.{begins}",
            fix,
            where,
            how,
            into="" if how == RUN else "nginx.conf",
        )


def dropped_values(records: Records, name: str) -> Iterator[Finding]:
    """Yield the values that are not used, by reason."""
    for reason, count in sorted(records.dropped.items(), key=lambda pair: -pair[1]):
        fix, how = _MENDS[reason]
        yield Finding(
            "values-dropped",
            WARNING,
            printable(reason),
            f"Values of {count:,} of {counted(records.read, 'line')} are not used ({printable(reason)}): "
            f"{DROPPED_REASONS[reason]}.",
            "The requests are in the figures; what these values say of them is unknown.",
            fix,
            name,
            how,
            into="nginx.conf",
        )


def _listing(name: str) -> tuple[str, str]:
    return f"sojourn split {quote(name)} --rejects refused.jsonl", RUN


def clock_findings(clock: pl.DataFrame, audit: Audit, name: str) -> Iterator[Finding]:
    """Yield clocks that are far apart, drift, were set, contradict themselves, are coarse, or are unknown."""
    checks = {check.name: check for check in audit.checks}
    if checks["resolution"].verdict == FAIL:
        yield Finding(
            "clock-coarse",
            WARNING,
            name,
            f"Clocks count too coarsely: {checks['resolution'].sentence}.",
            "Waits shorter than a step are rounded away. Stamps of whole seconds, or timer_resolution in nginx.conf.",
            'proxy_set_header X-Request-Start "t=${msec}";',
            name,
            REPLACE,
            into="whatever stamps",
        )
    if checks["clock"].verdict == FAIL:
        yield Finding(
            "clock-contradicts",
            WARNING,
            printable(audit.contradicted),
            f"The clocks are unknown: {checks['clock'].sentence}.",
            "Two machines behind one address, or a service time that is not the app's own, look like this.",
            f"sojourn clock {quote(name)}",
            name,
            RUN,
        )
    for row in plain_clocks(clock):
        if row["requests"] >= ENOUGH:
            yield from _clock(row, name)


def _clock(row: Mapping[str, object], name: str) -> Iterator[Finding]:
    backend, offset, drift = printable(row["upstream"] or "–"), _number(row["offset"]), _number(row["drift"])
    if not row["idle"] and _number(row["uncertainty"]) > UNSURE:
        yield Finding(
            "clock-unsure",
            INFO,
            backend,
            f"The clock of {backend} is known to ±{milliseconds(_number(row['uncertainty']))} ms only.",
            "Its queue was never seen empty, so a wait that all requests share looks like an offset.",
            f"sojourn clock {quote(name)}",
            name,
            RUN,
        )
        return
    steps = row["steps"]
    faults = []
    if steps:
        faults.append("was set while the log ran")
    if abs(drift) > DRIFT:
        faults.append(f"drifts by {formatted(drift * 1e6, '+.0f')} ppm")
    if abs(offset) > SKEW:
        faults.append(f"is {milliseconds(abs(offset))} ms {'ahead of' if offset > 0 else 'behind'} nginx's")
    if faults:
        yield Finding(
            "clock-skew",
            WARNING if steps else INFO,
            backend,
            f"The clock of {backend} {' and '.join(faults)}.",
            "The split corrects it, request by request; other tools that read both machines' times do not.",
            "chronyc makestep",
            name,
            RUN,
        )


def _audit(audit: Audit, name: str, requests: int) -> Iterator[Finding]:
    for check in audit.checks:
        if check.verdict != FAIL or check.name in ("resolution", "clock", "headers", "impossible"):
            continue
        code, severity, why, fix = _AUDIT.get(check.name, _AUDIT["identity"])
        yield Finding(
            code, severity, name, f"{_capital(check.sentence)}.", why, fix.format(name=quote(name)), name, RUN
        )
    impossible = next(check for check in audit.checks if check.name == "impossible")
    if impossible.value:
        yield Finding(
            "queue-impossible",
            WARNING if impossible.verdict == FAIL else INFO,
            name,
            f"{_capital(impossible.sentence)}.",
            "A stamp that nginx neither sets nor removes is the client's, whether in X-Request-Start or X-Queue-Start.",
            FULL.include_line("proxy"),
            name,
            ADD,
            into=INCLUDE_PLACE,
        )
    if audit.garbled:
        yield Finding(
            "app-garbled",
            WARNING,
            name,
            f"{counted(audit.garbled, 'answer')} had timing headers that are not durations; they count as absent.",
            "X-Queueing-Delay and X-Service-Time are seconds with a point, and may not be changed on the way.",
            "X-Service-Time: 0.100236",
            name,
            into="the headers that the app answers",
        )
    copies = audit.duplicates or 0
    if copies and copies >= MANY_COPIES * requests:
        yield Finding(
            "records-twice",
            INFO,
            name,
            f"{counted(copies, 'record')} came twice ({percent(copies / (requests + copies))}); each counts once.",
            "A rotated file that is read beside its copy, or a shipper that sends again. No figure is wrong.",
            f"sojourn split {quote(name)}",
            name,
            RUN,
        )


_UNSTEADY = "The formulas of queueing theory do not hold in it, and figures of a part of it say more."
_AUDIT = {
    "identity": (
        "identity-open",
        ERROR,
        "The components of every request add up by construction: this is a fault of sojourn's own.",
        "sojourn split {name} --json",
    ),
    "little": ("window-unsteady", INFO, _UNSTEADY, "sojourn split {name} --since T --until T"),
    "stationarity": ("window-unsteady", INFO, _UNSTEADY, "sojourn split {name} --since T --until T"),
    "utilisation": (
        "workers-impossible",
        WARNING,
        "Several processes with one X-Worker value, or a service time that holds waiting, look like this.",
        "sojourn depth {name} --workers N",
    ),
}


def checked_split(result: SplitResult) -> list[str]:
    """Return the checks of the audit that passed, and the lines that could be read."""
    records = result.records
    sentences = (
        [f"{records.accepted:,} of {counted(records.read, 'line')} could be used"] if not records.rejected else []
    )
    return sentences + [check.sentence for check in result.audit.checks if check.verdict == PASS]


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]

"""Diagnose a store: can it be opened, are its tables up to date, does it receive every record?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from shlex import quote
from typing import Any

from sojourn.analyses.split.run import split
from sojourn.doctor.facts import EARLY, EXAMPLES, MOST_BACKENDS, STREAMED, Facts
from sojourn.doctor.findings import ERROR, INFO, RUN, WARNING, Diagnosis, Finding
from sojourn.doctor.requests import checked_requests, request_findings
from sojourn.doctor.split_findings import checked_split, split_findings
from sojourn.model.components import LATE_STEPS, STAMP_TICK
from sojourn.model.dsn import parse
from sojourn.model.errors import SojournError
from sojourn.model.extras import install_command
from sojourn.model.formatting import counted, duration, iso, printable
from sojourn.store.agents import Agents
from sojourn.store.client import DamagedError, Store, connect, plainly, rows
from sojourn.store.condition import missing_spans
from sojourn.store.damage import Advice, damage, unreadable, without_spans
from sojourn.store.schema_state import compared

QUIET = 900.0  # s without a record, after which a store counts as no longer fed
BEHIND = 300  # s that a minute may be due before the rollups count as late

_WITH_SPANS = "SELECT count() FROM spans_missing WHERE minute > now() - INTERVAL 1 DAY AND missing IS NOT NULL"
_DUE = """
    SELECT count() FROM minutes_known
    WHERE touched > computed AND touched < now64(3) - INTERVAL {behind:UInt32} SECOND"""
_COUNTS = """
    SELECT count(), countIf(attempts > 0), countIf(answered), countIf(attempts > 0 AND request_start IS NULL),
        countIf(answered AND app_service_time IS NOT NULL AND worker = ''), countIf(request_id = ''),
        countIf(request_id = '' AND (proxy = '' OR connection IS NULL OR connection_requests IS NULL)),
        countIf(attempts > 0 AND NOT answered AND request_id NOT IN (SELECT request_id FROM spans)),
        countIf(transfer > {streamed:Float64} AND transfer > 0.5 * response),
        countIf(queueing_delay < {early:Float64}),
        countIf(attempts > 0 AND request_start IS NOT NULL
            AND (late_stamp OR response > {late_steps:UInt8} * greatest(time_step, {tick:Float64}))),
        countIf(request_start IS NOT NULL AND late_stamp),
        countIf(late_stamp
            AND abs(dateDiff('microsecond', request_start, time)) <= 1e6 * greatest(time_step, {tick:Float64})),
        uniqExact(route)
    FROM requests_split
    WHERE time >= fromUnixTimestamp64Micro({since:Int64}) AND served"""
_BACKENDS = """
    SELECT upstream, count() AS answers, countIf(app_service_time IS NULL AND app_queueing_delay IS NULL),
        ifNull(avg(connect), 0)
    FROM requests_split
    WHERE time >= fromUnixTimestamp64Micro({since:Int64}) AND served AND answered
    GROUP BY upstream ORDER BY answers DESC, upstream LIMIT {most:UInt32}"""
_SILENT = """
    SELECT upstream, route, count() AS silent
    FROM requests_split
    WHERE time >= fromUnixTimestamp64Micro({since:Int64}) AND served AND answered
        AND app_service_time IS NULL AND app_queueing_delay IS NULL
    GROUP BY upstream, route ORDER BY silent DESC, upstream, route LIMIT {most:UInt32}"""
_ROUTES = """
    SELECT route, count() AS c, countIf(attempts > 0 AND request_start IS NULL) AS bare,
        countIf(request_start IS NOT NULL AND late_stamp) AS late
    FROM requests_split
    WHERE time >= fromUnixTimestamp64Micro({since:Int64}) AND served
    GROUP BY route ORDER BY c DESC, route LIMIT {most:UInt32}"""
_SINGLE = """
    SELECT count() FROM (
        SELECT route FROM requests_split WHERE time >= fromUnixTimestamp64Micro({since:Int64}) AND served
        GROUP BY route HAVING count() = 1)"""
_REFUSED = """
    SELECT substring(stamp, 9), count() FROM requests FINAL
    WHERE time >= fromUnixTimestamp64Micro({since:Int64}) AND startsWith(stamp, 'refused:') GROUP BY 1"""


def diagnosed_store(dsn: str, since: datetime | None = None) -> Diagnosis:
    """Return what is wrong with a store.

    Raises:
        SojournError: the DSN is not an address of a store, or a query failed.
    """
    address = parse(dsn)
    name = str(address)
    diagnosis = Diagnosis(targets=[{"name": name, "kind": "store"}])
    try:
        store = connect(address)
    except SojournError as error:
        diagnosis.findings.append(_not_there(str(error), name))
        return diagnosis
    with store:
        try:
            with plainly(store, "looking at it"):
                facts = _looked_at(store, since, diagnosis)
            result = None if facts is None else split([dsn], since=since)
        except DamagedError as error:
            diagnosis.findings.append(_damaged(unreadable(store, error), name))
            return diagnosis
    if facts is not None and result is not None:
        if not result.requests:
            diagnosis.unseen.append(f"{name} holds no request in the time range.")
            return diagnosis
        diagnosis.connects = facts.connects
        findings = list(request_findings(facts, name))
        diagnosis.findings += [*split_findings(result, name), *findings]
        diagnosis.checked += checked_split(result) + checked_requests(facts, findings)
    return diagnosis


def _looked_at(store: Store, since: datetime | None, diagnosis: Diagnosis) -> Facts | None:
    """Add the findings about the store itself; return the facts of its requests, or None if they cannot be used."""
    name = store.dsn
    old = list(_schema(store, name))
    diagnosis.findings += old
    if any(each.severity == ERROR for each in old):
        return None
    diagnosis.checked.append("the store can be read, and its tables are up to date")
    damaged = [_damaged(each, name) for each in damage(store)]
    diagnosis.findings += damaged
    broken = any(each.severity == ERROR for each in damaged)
    if not broken:
        diagnosis.checked.append("every record that arrived is stored")
    diagnosis.findings += _agents(store, diagnosis)
    diagnosis.findings += _spans(store, diagnosis)
    empty = rows(store, "SELECT count() FROM requests")[0][0] == 0
    diagnosis.findings += [
        each for each in _feeds(store, name, empty=empty) if not broken or each.code != "store-empty"
    ]
    return None if empty else _facts(store, since)


def _damaged(advice: Advice, name: str) -> Finding:
    code, severity = ("store-damaged", ERROR) if advice.loses else ("parts-aside", INFO)
    return Finding(code, severity, name, f"In {name}, {advice.what}.", advice.why, advice.run, name, RUN)


def _warnings(code: str, advices: Iterable[Advice], name: str) -> Iterator[Finding]:
    for advice in advices:
        what = f"{advice.what[0].upper()}{advice.what[1:]}."
        yield Finding(code, WARNING, name, what, advice.why, advice.run, name, RUN)


def _agents(store: Store, diagnosis: Diagnosis) -> Iterator[Finding]:
    agents = Agents.of(store)
    yield from _warnings("agent-silent", agents.about_silence(), store.dsn)
    yield from _warnings("log-unread", agents.about_logs(store), store.dsn)
    if agents.sampled and not (agents.silent or agents.unread):
        diagnosis.checked.append("every agent is heard from, and no log waits longer than a minute to be read")


def _spans(store: Store, diagnosis: Diagnosis) -> Iterator[Finding]:
    minutes = missing_spans(store)
    yield from _warnings("spans-missing", without_spans(store, minutes), store.dsn)
    if not minutes and rows(store, _WITH_SPANS)[0][0]:
        diagnosis.checked.append("every request of the last day has its span, as far as its service has spans")


def _not_there(message: str, name: str) -> Finding:
    missing = "sojourn store init" in message
    message = message.removeprefix(f"{name}: ")
    return Finding(
        "store-missing" if missing else "store-unreachable",
        ERROR,
        name,
        f"{name} {'does not exist yet' if missing else 'cannot be opened'}: {printable(message, 400)}.",
        "It cannot be written to or queried." if missing else "The address, the password, or the server is wrong.",
        f"sojourn store init {quote(name)}" if missing else f"sojourn store query {quote(name)} 'SELECT 1'",
        name,
        RUN,
    )


def _schema(store: Store, name: str) -> Iterator[Finding]:
    schema = compared(store)
    fix = f"sojourn store init {quote(name)}"
    if schema.missing or schema.changed:
        differ = printable(", ".join(schema.missing + schema.changed), 400)
        what = f"The tables of {name} are not those of this Sojourn: {differ}."
        why = "Commands and dashboards query missing tables. The command may be repeated and changes no row."
        yield Finding("store-old", ERROR, name, what, why, fix, name, RUN)
    if schema.later:
        what = f"The tables of {name} are newer than this Sojourn ({printable(', '.join(schema.later))})."
        why = "This version does not know what the newer files added."
        yield Finding("store-old", INFO, name, what, why, install_command("store"), name, RUN)


def _feeds(store: Store, name: str, *, empty: bool) -> Iterator[Finding]:
    quoted = quote(name)
    load = f"sojourn store load {quoted} /var/log/nginx/sojourn.jsonl"
    if empty:
        why = "No log was loaded, or the pipeline does not reach it; refused lines are in dead_letters."
        yield Finding("store-empty", ERROR, name, f"{name} contains no request.", why, load, name, RUN)
    else:
        ((last,),) = rows(store, "SELECT toUnixTimestamp64Micro(max(time)) FROM requests")
        age = datetime.now(UTC).timestamp() - last / 1e6
        if age > QUIET:
            what = f"The last record of {name} is {duration(age)} old ({iso(datetime.fromtimestamp(last / 1e6, UTC))})."
            why = "Normal for logs that were loaded once. Otherwise the pipeline that feeds it has stopped."
            yield Finding("store-quiet", INFO, name, what, why, load, name, RUN)
        if rows(store, "EXISTS TABLE minutes_known")[0][0]:
            ((due,),) = rows(store, _DUE, {"behind": BEHIND})
            if due:
                what = (
                    f"The rollups of {counted(due, 'minute')} are missing, {BEHIND // 60} minutes after their last row."
                )
                why = "Dashboards show too little. The store computes them every 15 s; its errors give the reason."
                fix = f"sojourn store query {quoted} 'SELECT view, exception FROM system.view_refreshes'"  # noqa: S608 - to be read
                yield Finding("rollups-behind", WARNING, name, what, why, fix, name, RUN)
    for kind, reason, count, raw in rows(store, _LETTERS):
        if kind == "requests":
            continue  # reported by the split, with the share of all lines
        what = (
            f"{counted(count, 'row')} of {printable(kind)} {'was' if count == 1 else 'were'} refused "
            f"({printable(reason)})."
        )
        why = f"They are in dead_letters. One begins: {printable(raw, 80)}"
        fix = f"sojourn store query {quoted} 'SELECT reason, source, raw FROM dead_letters FINAL LIMIT 10'"  # noqa: S608 - to be read
        yield Finding("lines-refused", WARNING, printable(reason), what, why, fix, name, RUN)
    if rows(store, "SELECT count() FROM listen_queue")[0][0] == 0:
        what = f"{name} holds no samples of listen queues."
        why = "Connections that wait in the kernel, before nginx and before the app, are not measured."
        fix = "sojourn kernel --out kernel.jsonl\n" + f"sojourn store load {quoted} FOLDER"
        yield Finding("listen-missing", INFO, name, what, why, fix, name, RUN)


_LETTERS = """
    SELECT kind, reason, count() AS letters, any(raw) FROM dead_letters FINAL GROUP BY kind, reason
    ORDER BY letters DESC, kind, reason LIMIT 20"""


def _facts(store: Store, since: datetime | None) -> Facts:
    """Return the facts of ``facts_of_rows``, selected in the store."""
    begin = round(since.timestamp() * 1e6) if since else 0

    def selected(sql: str, **parameters: Any) -> list[tuple[Any, ...]]:
        return rows(store, sql, {"since": begin, **parameters})

    (counts,) = selected(_COUNTS, streamed=STREAMED, early=EARLY, late_steps=LATE_STEPS, tick=STAMP_TICK / 1e6)
    routes = selected(_ROUTES, most=MOST_BACKENDS)
    backends = [(str(u), int(a), int(s), float(c)) for u, a, s, c in selected(_BACKENDS, most=MOST_BACKENDS)]
    names = (
        "requests",
        "proxied",
        "answered",
        "unstamped",
        "no_worker",
        "no_id",
        "no_identity",
        "gone",
        "streamed",
        "early",
        "compared",
        "late",
        "ended",
        "routes",
    )
    return Facts(
        **dict(zip(names, map(int, counts), strict=True)),
        backends=[(upstream, answers, silent) for upstream, answers, silent, _ in backends],
        connects={upstream: (answers, connect) for upstream, answers, _, connect in backends},
        silent_routes=[(str(u), str(r), int(s)) for u, r, s in selected(_SILENT, most=MOST_BACKENDS)],
        unstamped_routes=[str(r) for r, _, bare, _ in sorted(routes, key=lambda one: -one[2]) if bare][:EXAMPLES],
        late_routes=[str(r) for r, _, _, late in sorted(routes, key=lambda one: -one[3]) if late][:EXAMPLES],
        refused={str(reason): int(count) for reason, count in selected(_REFUSED)},
        single=int(selected(_SINGLE)[0][0]),
        route_names=[str(route) for route, _, _, _ in routes],
    )

"""The diagnosis of a store: can it be opened, is it up to date, does it get all there is?"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from shlex import quote
from typing import Any

from sojourn.analyses.split.run import split
from sojourn.doctor.facts import EARLY, MOST_BACKENDS, SHOWN, STREAMED, Facts
from sojourn.doctor.findings import ERROR, INFO, RUN, WARNING, Diagnosis, Finding
from sojourn.doctor.requests import checked_requests, request_findings
from sojourn.doctor.split_findings import checked_split, split_findings
from sojourn.model.dsn import parse
from sojourn.model.errors import SojournError, install_command
from sojourn.model.formatting import counted, duration, iso, printable
from sojourn.store.client import Store, connect, plainly, rows
from sojourn.store.migrate import migrations

QUIET = 900.0  # s without a record, after which a store that is fed all the time is not
BEHIND = 300  # s that a minute may be due before the rollups are called late

_DUE = """
    SELECT count() FROM minutes_known
    WHERE touched > computed AND touched < now64(3) - INTERVAL {behind:UInt32} SECOND"""
_COUNTS = """
    SELECT count(), countIf(attempts > 0), countIf(answered), countIf(attempts > 0 AND request_start IS NULL),
        countIf(answered AND app_service_time IS NOT NULL AND worker = ''), countIf(request_id = ''),
        countIf(attempts > 0 AND NOT answered AND request_id NOT IN (SELECT request_id FROM spans)),
        countIf(transfer > {streamed:Float64} AND transfer > 0.5 * response),
        countIf(queueing_by_duration < {early:Float64}), uniqExact(route)
    FROM requests FINAL
    WHERE time >= fromUnixTimestamp64Micro({since:Int64}) AND status != 101"""
_BACKENDS = """
    SELECT upstream, count() AS answers, countIf(app_service_time IS NULL AND app_queueing_delay IS NULL),
        ifNull(avg(connect), 0)
    FROM requests FINAL
    WHERE time >= fromUnixTimestamp64Micro({since:Int64}) AND status != 101 AND answered
    GROUP BY upstream ORDER BY answers DESC, upstream LIMIT {most:UInt32}"""
_SILENT = """
    SELECT upstream, route, count() AS silent
    FROM requests FINAL
    WHERE time >= fromUnixTimestamp64Micro({since:Int64}) AND status != 101 AND answered
        AND app_service_time IS NULL AND app_queueing_delay IS NULL
    GROUP BY upstream, route ORDER BY silent DESC, upstream, route LIMIT {most:UInt32}"""
_ROUTES = """
    SELECT route, count() AS c, countIf(attempts > 0 AND request_start IS NULL) AS bare
    FROM requests FINAL
    WHERE time >= fromUnixTimestamp64Micro({since:Int64}) AND status != 101
    GROUP BY route ORDER BY c DESC, route LIMIT {most:UInt32}"""
_SINGLE = """
    SELECT count() FROM (
        SELECT route FROM requests FINAL WHERE time >= fromUnixTimestamp64Micro({since:Int64}) AND status != 101
        GROUP BY route HAVING count() = 1)"""
_REFUSED = """
    SELECT substring(stamp, 9), count() FROM requests FINAL
    WHERE time >= fromUnixTimestamp64Micro({since:Int64}) AND startsWith(stamp, 'refused:') GROUP BY 1"""


def diagnosed_store(dsn: str, since: datetime | None = None) -> Diagnosis:
    """What is wrong with a store; ``since``: look at requests of then and later, None: at all.

    Raises:
        SojournError: the DSN is no address of a store, or the store failed while it was asked.
    """
    address = parse(dsn)
    name = str(address)
    found = Diagnosis(targets=[{"name": name, "kind": "store"}])
    try:
        store = connect(address)
    except SojournError as error:
        found.findings.append(_not_there(str(error), name))
        return found
    with store, plainly(store, "looking at it"):
        old = list(_schema(store, name))
        found.findings += old
        if any(each.severity == ERROR for each in old):
            return found
        found.checked.append("the store can be read, and its tables are up to date")
        empty = rows(store, "SELECT count() FROM requests")[0][0] == 0
        found.findings += [*_feeds(store, name, empty=empty)]
        facts = None if empty else _facts(store, since)
    if facts is not None:
        result = split([dsn], since=since)
        if not result.requests:
            found.unseen.append(f"{name} holds no request of the time that was asked for.")
            return found
        found.connects = facts.connects
        told = list(request_findings(facts, name))
        found.findings += [*split_findings(result, name), *told]
        found.checked += checked_split(result) + checked_requests(facts, told)
    return found


def _not_there(words: str, name: str) -> Finding:
    missing = "sojourn store init" in words
    words = words.removeprefix(f"{name}: ")
    return Finding(
        "store-missing" if missing else "store-unreachable",
        ERROR,
        name,
        f"{name} {'is not there yet' if missing else 'cannot be opened'}: {printable(words, 400)}.",
        "Nothing can be kept in it, or asked of it."
        if missing
        else "The address, the password, or the server is wrong.",
        f"sojourn store init {quote(name)}" if missing else f"sojourn store query {quote(name)} 'SELECT 1'",
        name,
        RUN,
    )


def _schema(store: Store, name: str) -> Iterator[Finding]:
    if not rows(store, "EXISTS TABLE schema_migrations")[0][0]:
        applied: dict[str, str] = {}
    else:
        applied = dict(rows(store, "SELECT name, toString(checksum) FROM schema_migrations FINAL"))
    wanted = migrations()
    missing = [each.name for each in wanted if each.name not in applied]
    changed = [each.name for each in wanted if each.name in applied and applied[each.name] != each.checksum]
    newer = sorted(set(applied) - {each.name for each in migrations("any")})
    fix = f"sojourn store init {quote(name)}"
    if missing:
        what = f"The tables of {name} are older than this Sojourn: {', '.join(missing)} were not applied."
        why = "Commands and dashboards ask for what is not there. It can be done again, and no row is touched."
        yield Finding("store-old", ERROR, name, what, why, fix, name, RUN)
    elif changed:
        what = f"The tables of {name} were made by another text of {', '.join(changed)}."
        why = "The schema grows by new files only. Restore those files, or begin a new store."
        yield Finding("store-old", WARNING, name, what, why, fix, name, RUN)
    if newer:
        what = f"The tables of {name} are newer than this Sojourn ({printable(', '.join(newer))})."
        why = "What the newer files added is not known here."
        yield Finding("store-old", INFO, name, what, why, install_command("store"), name, RUN)


def _feeds(store: Store, name: str, *, empty: bool) -> Iterator[Finding]:
    shown = quote(name)
    load = f"sojourn store load {shown} access.jsonl"
    if empty:
        why = "No log was loaded, or the pipeline does not reach it; refused lines are in dead_letters."
        yield Finding("store-empty", ERROR, name, f"There is no request in {name}.", why, load, name, RUN)
    else:
        ((last,),) = rows(store, "SELECT toUnixTimestamp64Micro(max(time)) FROM requests")
        age = datetime.now(UTC).timestamp() - last / 1e6
        if age > QUIET:
            what = f"The last record of {name} is {duration(age)} old ({iso(datetime.fromtimestamp(last / 1e6, UTC))})."
            why = "Right for logs that were loaded once. A pipeline that feeds it has stopped."
            yield Finding("store-quiet", INFO, name, what, why, load, name, RUN)
        if rows(store, "EXISTS TABLE minutes_known")[0][0]:
            ((due,),) = rows(store, _DUE, {"behind": BEHIND})
            if due:
                what = (
                    f"The rollups of {counted(due, 'minute')} were not made, {BEHIND // 60} minutes after their last "
                    "row."
                )
                why = "Dashboards show too little. The store makes them by itself every 15 s; its errors say why not."
                fix = f"sojourn store query {shown} 'SELECT view, exception FROM system.view_refreshes'"  # noqa: S608 - to be read
                yield Finding("rollups-behind", WARNING, name, what, why, fix, name, RUN)
    for kind, reason, count, raw in rows(store, _LETTERS):
        if kind == "requests":
            continue  # told by the split, with the share of all lines
        what = (
            f"{counted(count, 'row')} of {printable(kind)} {'was' if count == 1 else 'were'} refused "
            f"({printable(reason)})."
        )
        why = f"They are in dead_letters. One begins: {printable(raw, 80)}"
        fix = f"sojourn store query {shown} 'SELECT reason, source, raw FROM dead_letters FINAL LIMIT 10'"  # noqa: S608 - to be read
        yield Finding("lines-refused", WARNING, printable(reason), what, why, fix, name, RUN)
    if rows(store, "SELECT count() FROM listen_queue")[0][0] == 0:
        what = f"{name} holds no samples of listen queues."
        why = "What waits in the kernel, before nginx and before the app, is not seen."
        fix = "sojourn kernel --out kernel.jsonl\n" + f"sojourn store load {shown} FOLDER"
        yield Finding("listen-missing", INFO, name, what, why, fix, name, RUN)


_LETTERS = """
    SELECT kind, reason, count() AS letters, any(raw) FROM dead_letters FINAL GROUP BY kind, reason
    ORDER BY letters DESC, kind, reason LIMIT 20"""


def _facts(store: Store, since: datetime | None) -> Facts:
    """The facts of ``facts_of_rows``, asked of the store; waits below zero by durations alone."""

    begin = round(since.timestamp() * 1e6) if since else 0

    def asked(sql: str, **parameters: Any) -> list[tuple[Any, ...]]:
        return rows(store, sql, {"since": begin, **parameters})

    (counts,) = asked(_COUNTS, streamed=STREAMED, early=EARLY)
    routes = asked(_ROUTES, most=MOST_BACKENDS)
    backends = [(str(u), int(a), int(s), float(c)) for u, a, s, c in asked(_BACKENDS, most=MOST_BACKENDS)]
    names = (
        "requests",
        "proxied",
        "answered",
        "unstamped",
        "no_worker",
        "no_id",
        "gone",
        "streamed",
        "early",
        "routes",
    )
    return Facts(
        **dict(zip(names, map(int, counts), strict=True)),
        backends=[(upstream, answers, silent) for upstream, answers, silent, _ in backends],
        connects={upstream: (answers, connect) for upstream, answers, _, connect in backends},
        silent_routes=[(str(u), str(r), int(s)) for u, r, s in asked(_SILENT, most=MOST_BACKENDS)],
        unstamped_routes=[str(r) for r, _, bare in sorted(routes, key=lambda one: -one[2]) if bare][:SHOWN],
        refused={str(reason): int(count) for reason, count in asked(_REFUSED)},
        single=int(asked(_SINGLE)[0][0]),
        route_names=[str(route) for route, _, _ in routes],
    )

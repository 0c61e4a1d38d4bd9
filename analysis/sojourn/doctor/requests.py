"""Check logged requests: stamps, the app's times, route and worker names, ids, abandoned requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from shlex import quote

from sojourn.doctor.app_servers import ANSWER_PAGE, AppServer, answer_lines
from sojourn.doctor.facts import EXAMPLES, Facts
from sojourn.doctor.findings import ADD, ERROR, INFO, RUN, WARNING, Finding
from sojourn.doctor.nginx_headers import OWN_VARIABLE, bare_lines, own_stamp_lines
from sojourn.doctor.nginx_machine import route_map
from sojourn.doctor.nginx_records import FULL, INCLUDE_PLACE
from sojourn.model.formatting import counted, percent, printable

FEW = 0.01  # of the requests: below this there is no finding
MOST = 0.5
SILENT = 0.1  # of a backend's answers
MANY_ROUTES = 100
EVERY_BACKEND = "every backend"
_STAMP_LINES = own_stamp_lines(f'"request_start":"${OWN_VARIABLE}"')
_BARE = "\n".join(bare_lines("proxy"))

# Of a stamp that was not sent: what it is, and what makes it so.
_OF_THE_END = (
    "request_start is time, the end of the request",
    "A variable that no header sends, and $msec, are evaluated when the line is written: send and log one variable.",
)
_OF_LATER = (
    "request_start is later than the begin of the upstream request",
    "It was evaluated after the request was sent, or is of a clock that is ahead: send and log one variable of nginx's "
    "own.",
)

# Reason -> (why it was refused, the line that mends it, what to do with it).
_REFUSED = {
    "list": (
        "it came twice in one header: two proxies each added one",
        _BARE,
        "The proxy in front must set its stamp instead of adding one. In HAProxy: http-request set-header.",
    ),
    "not_a_number": (
        "it is not a number",
        _BARE,
        "A stamp is t= and unix seconds, ms, us or ns. In HAProxy: http-request set-header X-Request-Start "
        "t=%[date(0,us)].",
    ),
    "unit": (
        "its number of digits fits none of seconds (10), ms (13), us (16) or ns (19)",
        _BARE,
        "A time since boot, or one cut short, is no unix time.",
    ),
    "unchecked": (
        "nginx without njs checks stamps in its own form only, of the last ten to twenty seconds",
        "apt install libnginx-mod-http-js",
        "Then include sojourn.conf instead of sojourn_without_njs.conf. Or let the proxy in front send t= and seconds "
        "with three decimals, as nginx does.",
    ),
    "future": (
        "it lies in the future",
        "chronyc makestep",
        "The clock of the proxy in front is ahead of this one. Where that cannot be helped: "
        'map "" $sojourn_max_future { default 60; }.',
    ),
    "stale": (
        "it is too old",
        'map "" $sojourn_max_age { default 7200; }',
        "Either requests really wait for an hour in front of this nginx, or that proxy's clock is late, or it passes "
        "on what its clients send.",
    ),
}

_BY_COMMAND = ("future", "unchecked")


def request_findings(facts: Facts, name: str) -> Iterator[Finding]:
    """Yield what the requests of a log or a store lack; ``name`` is its name in messages."""
    yield from _unstamped(facts, name)
    yield from _late_stamps(facts, name)
    yield from _silent(facts, name)
    yield from _refused_stamps(facts, name)
    yield from _waits(facts, name)
    yield from _names(facts, name)


def checked_requests(facts: Facts, findings: list[Finding]) -> list[str]:
    """Return sentences about the checks that passed."""
    codes = {each.code for each in findings}
    number = len(facts.backends)
    speaking = facts.answered > sum(silent for _, _, silent in facts.backends)
    backends = "the backend reports" if number == 1 else f"each of {counted(number, 'backend')} reports"
    fine = {
        "stamp-missing": f"{facts.proxied - facts.unstamped:,} of {counted(facts.proxied, 'request')} to an app "
        f"{'has' if facts.proxied - facts.unstamped == 1 else 'have'} a stamp",
        "app-silent": f"{backends} how long requests waited and how long it worked",
        "stamp-refused": "no stamp of a trusted proxy was refused",
        "queue-negative": "next to no wait is below zero",
        "routes-many": f"{facts.routes:,} route{' is' if facts.routes == 1 else 's are'} named",
        "worker-missing": "answers name their worker",
        "ids-missing": "requests have ids",
    }
    untold = set() if speaking else {"app-silent", "queue-negative", "worker-missing"}
    if "log-stamp" in codes:
        untold.add("stamp-missing")
    return [sentence for code, sentence in fine.items() if code not in codes | untold] if facts.proxied else []


def _unstamped(facts: Facts, name: str) -> Iterator[Finding]:
    if not facts.proxied or facts.unstamped < FEW * facts.proxied:
        return
    share = facts.unstamped / facts.proxied
    routes = ", ".join(printable(route, 60) for route in facts.unstamped_routes[:EXAMPLES])
    yield Finding(
        "stamp-missing",
        ERROR if share >= MOST else WARNING,
        routes,
        f"{percent(share)} of the requests that went to an app have no stamp in the log, most often for {routes}.",
        "Without the include in their location nginx sends no stamp, and the app cannot measure how long they waited.",
        FULL.include_line("proxy"),
        name,
        into=INCLUDE_PLACE,
    )


def _late_stamps(facts: Facts, name: str) -> Iterator[Finding]:
    if not facts.compared or facts.late < FEW * facts.compared:
        return
    share = facts.late / facts.compared
    routes = ", ".join(printable(route, 60) for route in facts.late_routes[:EXAMPLES])
    sentence, cause = _OF_THE_END if facts.ended >= MOST * facts.late else _OF_LATER
    yield Finding(
        "log-stamp",
        ERROR if share >= MOST else WARNING,
        routes,
        f"{sentence}, in {percent(share)} of the requests to an app ({facts.late:,} of {facts.compared:,}), most often "
        f"for {routes}.",
        "The logged stamp is not the one that was sent, and is not used: waits are known by durations alone, and the "
        f"upload is unknown. {cause}",
        _STAMP_LINES,
        name,
        into="nginx.conf",
    )


def _silent(facts: Facts, name: str) -> Iterator[Finding]:
    quiet = [(backend, silent, answered) for backend, answered, silent in facts.backends if silent >= SILENT * answered]
    if not quiet:
        return
    if len(quiet) == len(facts.backends) and all(silent == answered for _, silent, answered in quiet):
        what = f"No app sends its queueing delay and service time, on {counted(facts.answered, 'answer')}."
        yield _quiet(ERROR, EVERY_BACKEND, what, name)
        return
    for backend, silent, answered in quiet:
        share = silent / answered
        routes = [route for at, route, count in facts.silent_routes if at == backend and count >= SILENT * silent]
        where = (
            ""
            if share == 1 or not routes
            else f", most often for {', '.join(printable(r, 60) for r in routes[:EXAMPLES])}"
        )
        what = f"{printable(backend)} sends no times of its own on {percent(share)} of its answers{where}."
        yield _quiet(ERROR if share >= MOST else WARNING, printable(backend), what, name)


def _quiet(severity: str, subject: str, what: str, name: str) -> Finding:
    fix, into = answer_lines()
    return Finding(
        "app-silent",
        severity,
        subject,
        what,
        "Waiting and working are unknown there: the app does not send its times, or something between it and nginx "
        f"removes its headers. {ANSWER_PAGE}",
        fix,
        name,
        ADD,
        into=into,
    )


def answering(finding: Finding, servers: Mapping[str, AppServer]) -> Finding:
    """Return an ``app-silent`` with the lines for the server that responds.

    Args:
        finding: of one backend, or of every backend.
        servers: by backend; of those that are missing nothing is known.
    """
    silent = list(servers) if finding.subject == EVERY_BACKEND else [finding.subject]
    app_servers = {servers.get(backend, AppServer()) for backend in silent}
    languages = {each.language for each in app_servers}
    if len(languages) != 1 or not any(languages):
        return finding
    fix, into = answer_lines(languages.pop())
    names = " and ".join(sorted({each.name for each in app_servers if each.name}))
    what = f"{finding.what} The app runs in {names}." if names else finding.what
    return replace(finding, fix=fix, into=into, what=what)


def _refused_stamps(facts: Facts, name: str) -> Iterator[Finding]:
    for reason, count in sorted(facts.refused.items(), key=lambda pair: -pair[1]):
        because, fix, why = _REFUSED.get(reason, _REFUSED["not_a_number"])
        yield Finding(
            "stamp-refused",
            WARNING,
            printable(reason),
            f"{counted(count, 'stamp of a trusted proxy was', 'stamps of a trusted proxy were')} refused "
            f"({printable(reason)}): {because}.",
            f"nginx's own stamp was sent instead, so the wait in front of it is not seen. {why}",
            fix,
            name,
            RUN if reason in _BY_COMMAND else ADD,
            into="" if reason in _BY_COMMAND else "http of nginx.conf" if reason == "stale" else "the proxy in front",
        )


def _waits(facts: Facts, name: str) -> Iterator[Finding]:
    if facts.requests and facts.early >= FEW * facts.requests:
        yield Finding(
            "queue-negative",
            WARNING,
            name,
            f"{counted(facts.early, 'wait')} ({percent(facts.early / facts.requests)}) "
            f"{'is' if facts.early == 1 else 'are'} below zero by more than 2 ms.",
            "A clock that runs unevenly, a stamp made after the request was sent, or a service time that begins before "
            "the request was taken.",
            f"sojourn clock {quote(name)}",
            name,
            RUN,
        )
    if facts.proxied and facts.gone >= FEW * facts.proxied:
        yield Finding(
            "spans-missing",
            INFO,
            name,
            f"{counted(facts.gone, 'request')} ({percent(facts.gone / facts.proxied)}) "
            f"{'was' if facts.gone == 1 else 'were'} given up on, and no span shows the app's work for them.",
            "Their time is unattributed, and the work wasted on them is not measured.",
            f"sojourn split {quote(name)} --spans spans.jsonl",
            name,
            RUN,
        )
    if facts.answered and facts.streamed >= FEW * facts.answered:
        yield Finding(
            "answers-streamed",
            INFO,
            name,
            f"{counted(facts.streamed, 'answer')} ({percent(facts.streamed / facts.answered)}) went on for most of "
            "their time after their headers.",
            "The app's service time ends with the headers, but its worker continues: it is busier than it seems. Spans "
            "show it.",
            f"sojourn depth {quote(name)} --spans spans.jsonl",
            name,
            RUN,
        )


def _names(facts: Facts, name: str) -> Iterator[Finding]:
    if facts.routes > MANY_ROUTES:
        examples = ", ".join(printable(route, 40) for route in facts.route_names[:EXAMPLES])
        yield Finding(
            "routes-many",
            WARNING,
            name,
            f"There are {counted(facts.routes, 'route')}, {facts.single:,} of them with one request: {examples}, …",
            "Figures by route are too fine, blame finds no culprit, and a store grows with every path.",
            route_map(_prefixes(facts.route_names)),
            name,
            into="http of nginx.conf, behind the include",
        )
    if facts.answered and facts.no_worker >= SILENT * facts.answered:
        yield Finding(
            "worker-missing",
            WARNING,
            name,
            f"{counted(facts.no_worker, 'answer')} ({percent(facts.no_worker / facts.answered)}) "
            f"{'does' if facts.no_worker == 1 else 'do'} not name the worker (X-Worker).",
            "The number of workers is then unknown: no utilisation, no blame, no what-if without --workers.",
            "X-Worker: 1234",
            name,
            into="the headers that the app answers",
        )
    if facts.requests and facts.no_id >= FEW * facts.requests:
        yield _without_ids(facts, name)


def _without_ids(facts: Facts, name: str) -> Finding:
    may_repeat = facts.no_identity >= FEW * facts.requests
    effect = "and one delivered twice may count twice" if may_repeat else "but they have an identity"
    return Finding(
        "ids-missing",
        WARNING if may_repeat else INFO,
        name,
        f"{counted(facts.no_id, 'request')} ({percent(facts.no_id / facts.requests)}) "
        f"{'has' if facts.no_id == 1 else 'have'} no request id.",
        f"Spans and packets cannot be joined to them, {effect}.",
        """',"request_id":"$request_id"'""",
        name,
        into="the log_format in nginx.conf, before its closing brace",
    )


def _prefixes(names: list[str]) -> list[str]:
    """Return the most frequent first parts of some paths."""
    counts: dict[str, int] = {}
    for route in names:
        first = route.split("/")[1] if route.startswith("/") and len(route) > 1 else ""
        if first and all(c.isalnum() or c in "._-" for c in first) and not any(c.isdigit() for c in first):
            counts[f"/{first}"] = counts.get(f"/{first}", 0) + 1
    return sorted(counts, key=lambda path: (-counts[path], path))[:8]

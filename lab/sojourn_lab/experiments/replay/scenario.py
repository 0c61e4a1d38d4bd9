"""The scenario file of a replay: TOML with what it keeps of the log, and the original's figures as its criteria."""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.model.formatting import counted, milliseconds

from sojourn_lab.experiments.replay.workload import Replay, Tier
from sojourn_lab.scenario.topology import Server

TOLERANCE = 0.25
"""How far, relatively, a figure of the replay may be from the original's."""

OVERHEAD = 0.004
"""s that the parts of the lab may take beside the sleep, and that is allowed on top where 20 % are less."""

QUEUED = 0.1
"""From this share of the response on, queueing is compared relatively; below there is nothing to compare."""

AFTER = 0.5
"""s between the last arrival and the end of the measured window."""

BACKLOG = 2048
"""The log does not contain the backlog: gunicorn's default."""

PER_LINE = 12

COLUMNS = (
    ("service", "split.components.service_time.mean", "service_time"),
    ("queueing", "split.components.queueing_delay.mean", "queueing_delay"),
    ("queueing p99", "split.components.queueing_delay.p99", "queueing_p99"),
    ("response", "split.response_time.mean", "response_time"),
    ("p50", "split.response_time.p50", "response_p50"),
    ("p99", "split.response_time.p99", "response_p99"),
)


Bound = dict[str, float | str]
"""What a criterion says beside its name and metric."""


def replay_toml(replay: Replay, *, server: Server = "gunicorn", tolerance: float = TOLERANCE) -> str:
    """Return the scenario of a replay; its criteria have `tolerance`, and at another speed none about the original."""
    main, *others = replay.tiers
    parts = [
        _opening(replay),
        _keys(
            name="replay",
            title="A log, replayed",
            question="Do the same arrivals and service times cause the same queue here?",
            shows="The split of the replay beside that of the original.",
            seed=1,
            duration=round(replay.at[-1] + AFTER, 6),
            timeout=round(replay.patience + 10.0, 6),
            reference_name="original",
            reference_source="the log that is replayed",
        ),
        _learned(replay),
        "[topology]\n"
        + _keys(
            backends=main.backends,
            server=server,
            workers=main.workers,
            backlog=BACKLOG,
            worker_timeout=round(max(60.0, 2.0 * max(replay.services)), 6),
            proxy_read_timeout=round(replay.patience, 6),
            balancer=replay.balancer,
        ),
        *(_pool(number, tier) for number, tier in enumerate(others, 2)),
        "[[cases]]\n" + _keys(name="replay"),
        "[cases.load]\n" + _keys(kind="instants") + _lists(replay),
        *(_criterion(name, metric, bound) for name, metric, bound in _criteria(replay, tolerance)),
        *(
            "[[columns]]\n" + _keys(title=title, metric=metric, shown="ms", reference=key)
            for title, metric, key in COLUMNS
        ),
        _reference(replay),
    ]
    return "\n".join(parts)


def _opening(replay: Replay) -> str:
    about = replay.original
    tiers = "; ".join(f"{each.backends} × {each.workers} workers ({each.source})" for each in replay.tiers)
    lines = [
        "A log, replayed: the arrivals and the service times of a log, offered to real nginx and real app servers.",
        "",
        "What it measures",
        "  queueing delay   from the instant nginx builds the upstream request to the instant the app is called",
        "  service time     from the app's start to its response headers",
        "  response time    nginx's $request_time; of the original the time at the backend, without upload and retries",
        "",
        f"Load: {counted(len(replay.at), 'request')} at the instants at which nginx turned to the backend,"
        f" {replay.rate:.4g} a second,"
        + ("" if replay.speed == 1.0 else f" {replay.speed:g} times as fast")
        + " as they came",
        f"Topology as guessed from the log: {tiers}; {replay.balancer}",
        f"Of {counted(replay.read, 'request')} in the log {replay.not_proxied} went to no backend, "
        f"{replay.refused} were taken"
        f" by no worker and {replay.repeated} were there twice: left out.",
        f"{replay.drawn} had no service time of their own and got one of their route's."
        f" {replay.left_early} were left by their client: the replay's clients wait.",
        f"Original: mean response {milliseconds(about.response_mean)} ms,"
        f" of which {milliseconds(about.queueing_mean)} ms queueing.",
        "",
        "Nothing else of the log is here: no address, URI, id or date.",
    ]
    if any(each.uneven for each in replay.tiers):
        lines.insert(-2, "Backends had different numbers of workers: each has their mean here.")
    return "".join(f"# {line}\n" if line else "#\n" for line in lines)


def _criteria(replay: Replay, tolerance: float) -> list[tuple[str, str, Bound]]:
    """Return (name, metric, bound); the bounds are paths to the reference, so that they move with --scale."""
    sound: list[tuple[str, str, Bound]] = [
        ("no log record refused", "split.records.rejected", {"equals": 0.0}),
        ("the parts add up to the response to 1 µs", "split.audit.identity_max_error", {"below": 1e-6}),
        ("every request was sent", "client.dropped", {"equals": 0.0}),
    ]
    if replay.speed != 1.0:
        return sound  # there is no original measurement at this speed
    about = replay.original
    criteria: list[tuple[str, str, Bound]] = []
    if not replay.drawn:
        service, of = about.service_mean, "reference.service_time"
        criteria.append(_near("mean service time", COLUMNS[0][1], of, service, service, tolerance))
    share = about.queueing_mean / about.response_mean
    if share >= QUEUED:
        queueing, of = about.queueing_mean, "reference.queueing_delay"
        criteria.append(_near("mean queueing delay", COLUMNS[1][1], of, queueing, queueing, tolerance))
        criteria.append(_near("p99 of the queueing delay", COLUMNS[2][1], of, queueing, about.queueing_p99, tolerance))
    else:
        bound: Bound = {
            "below": "reference.response_time",
            "times": round(2.0 * QUEUED + OVERHEAD / about.response_mean, 6),
        }
        criteria.append(("hardly any queueing, as in the original", COLUMNS[1][1], bound))
    response, of = about.response_mean, "reference.response_time"
    for name, column, original in (
        ("mean response time", COLUMNS[3], response),
        ("p50 of the response time", COLUMNS[4], about.response_p50),
        ("p99 of the response time", COLUMNS[5], about.response_p99),
    ):
        criteria.append(_near(name, column[1], of, response, original, tolerance))
    return [*criteria, *sound]


def _near(
    name: str, metric: str, of: str, reference: float, original: float, tolerance: float
) -> tuple[str, str, Bound]:
    """Return a criterion: `metric` near `original`, which is written as a multiple of the figure at the path `of`."""
    within = round(max(tolerance, OVERHEAD / max(original, 1e-6)), 4)
    bound: Bound = {"within": within, "of": of, "times": round(max(original / reference, 1e-9), 9)}
    return f"{name} within {within:.0%} of the original's {milliseconds(original)} ms", metric, bound


def _criterion(name: str, metric: str, bound: Bound) -> str:
    return "[[criteria]]\n" + _keys(name=name, metric=metric, **bound)


def _reference(replay: Replay) -> str:
    about = replay.original
    text = "[[reference]]\n" + _keys(
        cases="replay",
        response_time=round(max(about.response_mean, 1e-6), 6),
        queueing_delay=round(about.queueing_mean, 6),
        service_time=round(max(about.service_mean, 1e-6), 6),
    )
    more = ", ".join(f"{key} = {getattr(about, key):.6f}" for key in ("response_p50", "response_p99", "queueing_p99"))
    return text + f"figures = {{{more}}}\n"


def _learned(replay: Replay) -> str:
    queueing, response = COLUMNS[1][1], COLUMNS[3][1]
    about = replay.original
    return _keys(
        learned=f"Replayed, {counted(len(replay.at), 'request')} took {{replay:{response}|ms}} on average, of which"
        f" {{replay:{queueing}|ms}} went waiting for a worker; in the original it was"
        f" {milliseconds(about.response_mean)} ms, of which {milliseconds(about.queueing_mean)} ms"
        + (f", with arrivals {1.0 / replay.speed:.3g} times as fast." if replay.speed != 1.0 else "."),
    )


def _pool(number: int, tier: Tier) -> str:
    routes = ", ".join(f'"{each}"' for each in tier.routes)
    head = _keys(name=f"pool-{number}", backends=tier.backends, workers=tier.workers)
    return f"[[topology.pools]]\n{head}routes = [{routes}]\n"


def _lists(replay: Replay) -> str:
    numbers = {"at": replay.at, "service_times": replay.services}
    lists = {key: [f"{value:.6f}" for value in values] for key, values in numbers.items()}
    lists["routes"] = [f'"{each}"' for each in replay.routes]
    return "".join(f"{key} = [\n{_lines(values)}]\n" for key, values in lists.items())


def _lines(values: Sequence[str]) -> str:
    starts = range(0, len(values), PER_LINE)
    return "".join("    " + ", ".join(values[start : start + PER_LINE]) + ",\n" for start in starts)


def _keys(**values: object) -> str:
    """Return lines of TOML for numbers, and for text without quotes."""
    return "".join(
        f'{key} = "{value}"\n' if isinstance(value, str) else f"{key} = {value}\n" for key, value in values.items()
    )

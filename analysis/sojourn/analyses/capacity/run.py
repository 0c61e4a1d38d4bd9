"""Capacity of sources, splits or frames."""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.analyses.capacity.analysis import Capacity
from sojourn.analyses.capacity.analysis import capacity as capacity_of_windows
from sojourn.analyses.capacity.knee import Slo
from sojourn.analyses.capacity.mix import mix_of
from sojourn.analyses.capacity.sizing import INSTANCES
from sojourn.analyses.capacity.store import store_load_windows, store_mix
from sojourn.model.coverage import APP_LOG, Coverage
from sojourn.model.errors import SojournError
from sojourn.model.formatting import listed
from sojourn.model.frame import Selection
from sojourn.model.instants import Instant
from sojourn.readers.inputs import NamedSources
from sojourn.sources.open_requests import Where, refuse_part_of_backends
from sojourn.sources.opening import RequestsLike, read_already, requests_from
from sojourn.sources.store_measures import StoreMeasures
from sojourn.timeline.contention.load_dependence import LoadDependence
from sojourn.timeline.load_windows import load_windows
from sojourn.timeline.visits_of import visits_of

WORKERS_OF_THEIR_OWN = {"service", "upstream", "proxy"}
"""Columns by which requests of a store are selected: their values rarely share workers."""


def capacity(
    requests: RequestsLike,
    *,
    slo: str | Slo | Sequence[str | Slo] = (),
    target_rate: float | None = None,
    headroom: float = 0.0,
    instance: str = "system",
    per_instance: float | None = None,
    window: float | None = None,
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
) -> Capacity:
    """Return the load at which an objective breaks, the scalability law, and instances for a target rate.

    >>> result = sojourn.capacity("docs/examples/ramp.jsonl.gz", slo="p99=0.5")
    >>> print(result)
    p99 ≤ 0.5 s breaks at 76.3 requests/s (95 %: at least 74.48).

    Args:
        requests: sources, a split, or a frame: a ramp, or many windows of different load.
        slo: objectives, such as ``"p99=0.5"``, ``"mean=…"``, ``p50``, ``p90``, ``p99.9`` (s), ``"errors=0.01"``.
        target_rate: rate to size for, requests/s.
        headroom: additional capacity, as a share of the target.
        instance: ``system``: the whole system is one instance; ``upstream``: each address is one.
        per_instance: known rate of one instance, requests/s.
        window: width of a window, s; None: about 60 windows.
        since: only requests that arrived at or after this instant: ISO 8601 with a zone, an aware
            datetime, or unix seconds.
        until: only requests that arrived before this instant.
        where: only requests with these values.

    Raises:
        SojournError: a source cannot be read, an objective is invalid, the requests do not fill one window, or their
            times do not contain the wait.
    """
    if instance not in INSTANCES:
        raise SojournError(f"{instance!r} is not one of {', '.join(INSTANCES)}")
    slos = [slo] if isinstance(slo, str | Slo) else list(slo)
    objectives = [each if isinstance(each, Slo) else Slo.of(each) for each in slos]
    by_instance = instance == "upstream"
    dependence: LoadDependence | None = None
    sources = None if read_already(requests) else NamedSources.of(requests)  # type: ignore[arg-type]
    if sources is not None and sources.only_store is not None:
        # A store sends a row a window instead of every request.
        chosen = Selection.of(since, until, where)
        if sharing := set(chosen.where) - WORKERS_OF_THEIR_OWN:
            raise SojournError(
                f"a condition on {min(sharing)} leaves out requests of the same backends, which hold the same workers: "
                f"select by {listed(sorted(WORKERS_OF_THEIR_OWN))}"
            )
        _refuse_app_log(StoreMeasures(sources.only_store, chosen).coverage())
        windows = store_load_windows(sources.only_store, chosen, width=window, by_instance=by_instance)
        mix = store_mix(sources.only_store, chosen, windows, objectives)
    else:
        opened = requests_from(sources or requests, since=since, until=until, where=where)
        refuse_part_of_backends(opened)
        _refuse_app_log(opened.measures.coverage())
        windows = load_windows(opened.rows, width=window, by_instance=by_instance)
        mix = mix_of(opened.rows, windows, objectives)
        if target_rate is not None and per_instance is None:
            dependence = LoadDependence.of(visits_of(opened))
    return capacity_of_windows(
        windows,
        slos=objectives,
        target_rate=target_rate,
        headroom=headroom,
        per_instance=per_instance,
        dependence=dependence,
        mix=mix,
    )


def _refuse_app_log(coverage: Coverage) -> None:
    """Refuse response times without the wait: they hardly grow with the load.

    Raises:
        SojournError: the requests are of an app server's log.
    """
    if coverage.of_app:
        raise SojournError(f"the capacity is unknown. {APP_LOG}")

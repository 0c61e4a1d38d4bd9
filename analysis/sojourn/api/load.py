"""What theory says, how far the cliff is, what changed, and what another set-up would have made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from sojourn.analyses.capacity.analysis import Capacity
from sojourn.analyses.capacity.analysis import capacity as capacity_of_windows
from sojourn.analyses.capacity.knee import Slo
from sojourn.analyses.compare.analysis import Comparison
from sojourn.analyses.compare.analysis import compare as compare_splits
from sojourn.analyses.laws.analysis import Laws
from sojourn.analyses.laws.analysis import laws as laws_of_visits
from sojourn.analyses.whatif.analysis import whatif as whatif_of_rows
from sojourn.analyses.whatif.result import WhatIfResult
from sojourn.api.given import Instant, RequestsLike, Where, given, in_memory, split_given
from sojourn.api.waiting import WorkersLike
from sojourn.model.errors import SojournError
from sojourn.model.frame import Selection
from sojourn.readers.inputs import Source, only_store
from sojourn.timeline.load_windows import LoadWindows, load_windows
from sojourn.timeline.visits import visits as visits_of_rows

INSTANCES = ("system", "upstream")
Setting = Mapping[str, str | float]


def laws(
    requests: RequestsLike,
    *,
    workers: WorkersLike = None,
    spans: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
) -> Laws:
    """The laws of queueing beside the measured wait, per upstream and backend, and which of them to believe.

    >>> found = sojourn.laws("docs/examples/clocks.jsonl.gz")
    >>> found.stations[0].believe
    'allen_cunneen'

    Arguments as of ``sojourn.depth``. Of a frame, nothing is known of whether it was stationary.

    Raises:
        SojournError: a source cannot be read, or no backend has enough requests.
    """
    taken = given(requests, spans=spans, since=since, until=until, where=where)
    audit = None if taken.result is None else taken.result.audit
    return laws_of_visits(visits_of_rows(taken.rows, workers=workers), audit)


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
    """The load at which an objective breaks, the scalability law, and instances for a target rate.

    >>> found = sojourn.capacity("docs/examples/ramp.jsonl.gz", slo="p99=0.5")
    >>> print(found)
    p99 ≤ 0.5 s breaks at 76.3 requests/s (95 %: at least 74.48).

    Args:
        requests: sources, a split, or a frame: a ramp, or many windows of different load.
        slo: objectives: ``"p99=0.5"``, ``"mean=…"``, ``p50``, ``p90``, ``p99.9`` (s), ``"errors=0.01"``.
        target_rate: requests/s to find the number of instances for; headroom: share by which more is to be had.
        instance: what an instance is: ``system``, all of it, or ``upstream``, each address.
        per_instance: requests/s that an instance bears, where it is known.
        window: width of a window, s; None: about 60 windows.
        since, until, where: only these requests.

    Raises:
        SojournError: a source cannot be read, an objective is none, or there is not one whole window.
    """
    if instance not in INSTANCES:
        raise SojournError(f"{instance!r} is not one of {', '.join(INSTANCES)}")
    slos = [slo] if isinstance(slo, str | Slo) else list(slo)
    objectives = [each if isinstance(each, Slo) else Slo.of(each) for each in slos]
    windows = _windows(requests, instance == "upstream", window, since, until, where)
    return capacity_of_windows(
        windows, slos=objectives, target_rate=target_rate, headroom=headroom, per_instance=per_instance
    )


def _windows(
    requests: RequestsLike, by_instance: bool, width: float | None, since: Instant, until: Instant, where: Where
) -> LoadWindows:
    # A store sends a row a window instead of every request.
    dsn = None if in_memory(requests) else only_store(requests)  # type: ignore[arg-type]
    if dsn is None:
        taken = given(requests, since=since, until=until, where=where)
        return load_windows(taken.rows, width=width, by_instance=by_instance)
    from sojourn.analyses.capacity.store import store_load_windows  # noqa: PLC0415 - a store's driver is for stores only

    return store_load_windows(dsn, Selection.of(since, until, where), width=width, by_instance=by_instance)


def compare(
    a: RequestsLike,
    b: RequestsLike | None = None,
    *,
    at: Instant = None,
    by: str = "route",
    names: tuple[str, str] | None = None,
    spans: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
) -> Comparison:
    """What changed from ``a`` to ``b``, for certain or by chance, and which component and group did it.

    >>> shop = "docs/examples/shop.jsonl.gz"
    >>> found = sojourn.compare(shop, at=1767225660.0)  # before and after more exports came
    >>> found.names
    ('before', 'after')

    Args:
        a, b: sources, splits or frames; of a split, ``by`` is among its columns.
        at: instead of ``b``: ``a`` before this instant against ``a`` from then on; aware datetime or unix seconds.
        by: column to attribute the change to.
        names: of the sides.
        spans, since, until, where: of sources and frames, only these requests.

    Raises:
        SojournError: a source cannot be read, a side has no request, or not one of ``b`` and ``at`` is given.
    """
    if (b is None) == (at is None):
        raise SojournError("compare takes two sides, or one and the instant at which to divide it (at=…)")
    middle = None if at is None else _instant(at)
    ends = ((since, middle or until), (middle or since, until))
    first, second = (
        split_given(side, columns=(by,), spans=spans, since=begin, until=end, where=where)
        for side, (begin, end) in zip((a, a if b is None else b), ends, strict=True)
    )
    return compare_splits(first, second, by=by, names=names or (("A", "B") if at is None else ("before", "after")))


def _instant(at: datetime | float) -> datetime:
    return at if isinstance(at, datetime) else datetime.fromtimestamp(at, UTC)


def whatif(
    requests: RequestsLike,
    variants: Setting | Sequence[Setting] = (),
    *,
    workers: WorkersLike = None,
    closed_loop: bool = False,
    rank: str = "p99",
    force: bool = False,
    seed: int = 0,
    spans: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
) -> WhatIfResult:
    """What another set-up would have made of the same requests: measured arrivals and services, replayed.

    >>> shop, spans = "docs/examples/shop.jsonl.gz", "docs/examples/shop-spans.jsonl.gz"
    >>> print(sojourn.whatif(shop, {"workers": "+1"}, spans=spans))
    +1 worker per backend would bring p99 from 4,000 to 2,144 ms (-46%; 95 %: -64% to -1%).

    Args:
        requests: sources, a split, or a frame, of all that shared the workers.
        variants: each a change of one thing or of several: ``{"workers": "+1", "discipline": "lifo"}``; keys are
            workers, backends, discipline, balancer, timeout, retries, backoff, capacity, load, service,
            service:ROUTE and pool:ROUTE. None: the usual ones.
        workers: per backend, or the same for all; None: read off the worker values.
        closed_loop: clients ask again when they were answered: a faster system draws more load.
        rank: the figure of the response time by which variants are ranked, or ``goodput``.
        force: predict though the replay of things as they are is off.
        seed: of what is drawn.
        spans, since, until, where: as of ``sojourn.depth``.

    Returns:
        The replay beside what was measured, and the variants from the best to the worst. Where the replay is off, there
        are none, and ``refused`` says why.

    Raises:
        SojournError: a source cannot be read, or a variant is not to be understood.
    """
    listed = [variants] if isinstance(variants, Mapping) else list(variants)
    taken = given(requests, columns=("remote_addr", "connection"), spans=spans, since=since, until=until, where=where)
    return whatif_of_rows(
        taken.rows, listed, workers=workers, closed_loop=closed_loop, rank=rank, force=force, seed=seed
    )

"""Infer the queue in front of backends whose apps reported nothing, and fill it into split rows.

A row gets its queue from here only if no row of its backend has one of its own: measured and inferred queues are never
mixed within a backend, and ``queue_source`` says which one a row has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.inference.inferred import INFERRED, LOWER_BOUND, REFUSED, STAMP_ERROR, Inference, refused
from sojourn.model.coverage import ENOUGH, FEW_MEASURED
from sojourn.model.formatting import iso, printable
from sojourn.model.frame import APP, PROXY, WHOLE

SWITCHING_PROTOCOLS = 101
SLOW_CLIENT = 0.02  # s from the backend's answer to the end of the request
MOST_SLOW = 0.05  # of the requests: with more, the order of the lines is not that of the backend's answers
SLOW_CLIENTS = (
    "The instants of the log are whole seconds, and clients took long to receive their answers, so that the order of "
    "the lines is not that of the backend's answers: add $msec to nginx's log_format."
)
UNSERVED = (0, 499, 502, 503, 504)  # departures that are not those of a worker
COARSEST_STEP = 0.001  # s, of instants that the likelihood can use
NEEDED = (
    "start", "upload", "proxy_queue", "retries", "connect", "header", "response", "status", "upstream", "route",
    "proxied", "answered", "queue_source", "vantage", "time_step", "request_time", "proxy",
)  # fmt: skip
ROW = "__row"


@dataclass(frozen=True, repr=False)
class BackendInference:
    """The inferred queue of one backend.

    Attributes:
        upstream: its address; None: the log does not name it.
        requests: requests to it.
        unserved: of these, the ones that left without being served.
        rows: positions of the others among the rows, in the order in which they were given to ``result``.
        result: the inference.
        base: the instant 0 of ``result``.
        later: microseconds by which each arrival of ``result`` is later than its row says: 0, unless instants are
            reconstructed or a clock is corrected.
        skews: proxy -> s by which its clock is ahead of that of the proxy with most requests, where that is known.
    """

    upstream: str | None
    requests: int
    unserved: int
    rows: npt.NDArray[np.int64]
    result: Inference
    base: datetime
    later: npt.NDArray[np.int64]
    skews: Mapping[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The backend, for people."""
        return printable(self.upstream or "the backend", 60)

    @property
    def sentence(self) -> str:
        """The verdict with its reason."""
        verdict = {INFERRED: "inferred", LOWER_BOUND: "a lower bound", REFUSED: "not inferred"}[self.result.verdict]
        return f"Queueing delay of {self.name}: {verdict}. {self.result.reason}"

    def at(self, seconds: float) -> datetime:
        """Return an instant of ``result``."""
        return self.base + timedelta(seconds=seconds)

    def to_dict(self) -> dict[str, Any]:
        """Return the object of the JSON output."""
        result = self.result
        refused = result.verdict == REFUSED
        excess = result.excess and {"mean": result.excess[0], "standard_error": result.excess[1]}
        return {
            "upstream": self.upstream,
            "requests": self.requests,
            "verdict": result.verdict,
            "reason": result.reason,
            "workers": result.workers or None,
            "workers_set": [result.lowest, result.highest] if result.lowest else None,
            "wait": None if refused else figures_of(result.wait),
            "wait_range": {
                "mean": result.mean_range and list(result.mean_range),
                "p99": result.p99_range and list(result.p99_range),
            },
            "service": None if refused else figures_of(result.service),
            "empty_system_excess": excess,
            "moved": bool(result.windows),
            "windows": [
                {**vars(window), "begin": iso(self.at(window.begin)), "end": iso(self.at(window.end))}
                for window in result.windows
            ],
            "checks": [check.to_dict() for check in result.checks],
            "unserved": self.unserved,
            "contradictions": result.contradictions,
            "skew": dict(self.skews),
        }


def figures_of(seconds: npt.NDArray[np.float64]) -> dict[str, float]:
    """Return mean, p50 and p99 of times (s)."""
    p50, p99 = np.quantile(seconds, (0.5, 0.99))
    return {"mean": float(seconds.mean()), "p50": float(p50), "p99": float(p99)}


def inferred_note(rows: pl.LazyFrame) -> str:
    """Return the sentence that marks what is computed from inferred queues; empty where all of them are measured."""
    if "queue_source" not in rows.collect_schema().names():
        return ""
    inferred = rows.filter(pl.col("queue_source") == INFERRED).select(pl.col("upstream").unique().sort())
    names = inferred.collect(engine="streaming").to_series().to_list()
    if not names:
        return ""
    listed = printable(names[0] or "the backend", 60) + (f" and {len(names) - 1} more" if len(names) > 1 else "")
    return f"Queueing delays of {listed} are inferred from the log, not measured."


def inferred_rows(rows: pl.LazyFrame) -> tuple[pl.LazyFrame, list[BackendInference]]:
    """Return split rows with the queues that can be inferred, and the inference of each backend that reported none.

    Rows of such a backend get ``queue``, ``queueing_delay``, ``service_time``, ``queue_source`` ("inferred") and
    ``inferred_workers``; what was ``unattributed`` of them becomes these. Where instants of whole seconds are
    reconstructed, ``start`` is the reconstructed one, and ``time`` that instant plus the duration.
    """
    names = rows.collect_schema().names()
    rows = rows.with_columns(inferred_workers=pl.lit(None, pl.Int64))
    if not set(NEEDED) <= set(names):
        return rows, []
    backends = list(inferences(rows))
    known = [backend for backend in backends if backend.result.verdict != REFUSED]
    if not known:
        return rows, backends
    count = int(rows.select(pl.len()).collect(engine="streaming").item())
    waits, workers, later = np.full(count, np.nan), np.zeros(count, np.int32), np.zeros(count, np.int64)
    for backend in known:
        at = backend.rows[backend.result.order]
        waits[at], workers[at], later[at] = backend.result.wait, backend.result.workers, backend.later
    moved = bool(later.any())
    # Beside the rows, in their order: a join of as many rows would need far more memory.
    beside = pl.DataFrame({"__wait": waits, "__workers": workers, **({"__later": later} if moved else {})})
    joined = pl.concat([rows, beside.lazy()], how="horizontal")
    connect = pl.col("connect").fill_null(0.0)
    until_headers = pl.coalesce("header", "response")
    known_wait = pl.col("__wait").is_not_nan()
    # The error of the stamps may put a start behind the response.
    wait = pl.min_horizontal("__wait", until_headers)
    queue = wait - connect
    filled = {
        "queue": queue,
        "queueing_delay": pl.col("proxy_queue") + wait,
        "service_time": until_headers - wait,
        "network": pl.lit(0.0),
        "unattributed": pl.lit(0.0),
        "queue_source": pl.lit(INFERRED),
        "inferred_workers": pl.col("__workers").cast(pl.Int64),
    }
    instants = [name for name in ("start", "time") if name in names] if moved else []
    schema = rows.collect_schema()
    return (
        joined.with_columns(
            **{name: pl.when(known_wait).then(value).otherwise(pl.col(name)) for name, value in filled.items()},
            **{
                name: (pl.col(name) + pl.duration(microseconds=pl.col("__later"))).cast(schema[name])
                for name in instants
            },
        ).drop(beside.columns),
        backends,
    )


def inferences(rows: pl.LazyFrame, workers: int | Mapping[str, int] | None = None) -> Iterator[BackendInference]:
    """Yield the inferred queue of every backend whose app reported nothing, the one with most requests first.

    Args:
        rows: split rows.
        workers: number of workers per backend, or of all; None: inferred.

    Logs with stamps of a second take seconds: their instants are sampled.
    """
    table, base = _visits(rows)
    for name, _ in table["upstream"].value_counts(sort=True).iter_rows():
        part = table.filter(pl.col("upstream").eq_missing(name)) if table["upstream"].n_unique() > 1 else table
        measured = (part["measured"] & part["answered"]).sum()
        if workers is None and len(part) < ENOUGH:
            continue
        if measured > FEW_MEASURED * max(int(part["answered"].sum()), 1) or part["vantage"][0] == APP:
            continue
        upstream = None if name is None else str(name)
        served, result = part.filter(~pl.col("unserved")) if part["unserved"].any() else part, None
        skews: dict[str, float] = {}
        sampled = _coarsest(part) > COARSEST_STEP
        if refusal := _unusable(part, served):
            served, result = part.clear(), refused(refusal)
        unserved = len(part) - len(served)
        number = workers.get(upstream or "") if isinstance(workers, Mapping) else workers
        if result is None:
            arrival, departure = (served[name].to_numpy() / 1e6 for name in ("arrival", "departure"))
            routes = _numbers(served["route"])
            if sampled:
                from sojourn.inference.reconstruction import reconstruct  # noqa: PLC0415 - numba takes its time to load

                second = served["finish"].to_numpy() / 1e6
                result = reconstruct(second, departure - arrival, routes, unserved=unserved, workers=number)
            else:
                from sojourn.inference.engine import infer  # noqa: PLC0415

                ahead, skews = _skew(served, arrival, departure, routes, _error(part))
                arrival, departure = arrival - ahead, departure - ahead
                result = infer(arrival, departure, routes, unserved=unserved, error=_error(part), workers=number)
        yield BackendInference(
            upstream, len(part), unserved, served[ROW].to_numpy(), result, base, _later(result, served["arrival"]),
            skews,
        )  # fmt: skip


def _numbers(names: pl.Series) -> npt.NDArray[np.int64]:
    """Return the number of each category."""
    return names.to_physical().to_numpy().astype(np.int64)


def _skew(
    served: pl.DataFrame,
    arrival: npt.NDArray[np.float64],
    departure: npt.NDArray[np.float64],
    routes: npt.NDArray[np.int64],
    error: float,
) -> tuple[npt.NDArray[np.float64], dict[str, float]]:
    """Return by how much the clock of each request's proxy is ahead, s, and that of each proxy that differs."""
    _, first, proxies = np.unique(_numbers(served["proxy"]), return_index=True, return_inverse=True)
    if len(first) < 2:
        return np.zeros(len(served)), {}
    from sojourn.inference.skew import skews_of  # noqa: PLC0415

    ahead = skews_of(arrival, departure, proxies.astype(np.int64), routes, error)
    known = {str(served["proxy"][int(at)]): round(float(skew), 6) for at, skew in zip(first, ahead, strict=True)}
    return ahead[proxies], {name: seconds for name, seconds in known.items() if seconds}


def _later(result: Inference, arrival: pl.Series) -> npt.NDArray[np.int64]:
    """Return the microseconds by which each arrival of an inference is later than the logged one."""
    return np.rint(result.arrival * 1e6).astype(np.int64) - arrival.to_numpy()[result.order]


def _visits(rows: pl.LazyFrame) -> tuple[pl.DataFrame, datetime]:
    """Return the requests that went to a backend, and the instant 0 of their arrivals and departures (us)."""
    seconds = pl.col("upload") + pl.col("proxy_queue") + pl.col("retries")
    epoch = pl.col("start").dt.epoch("us")
    base = (rows.select(epoch.min()).collect(engine="streaming").item() or 0) // 1_000_000 * 1_000_000
    lasted = pl.coalesce("response", "header")
    arrival = epoch - base + (seconds * 1e6).round().cast(pl.Int64)
    table = (
        rows.with_row_index(ROW)
        .with_columns(__arrival=arrival)
        .filter(
            pl.col("proxied")
            & (pl.col("status") != SWITCHING_PROTOCOLS)
        )
        .select(
            pl.col(ROW).cast(pl.Int64), "answered", pl.col("upstream").cast(pl.Categorical),
            pl.col("time_step").cast(pl.Float32),
            # Numbers in place of texts: there may be millions.
            *(pl.col(name).fill_null("").cast(pl.Categorical) for name in ("route", "proxy")),
            pl.col("vantage").fill_null(PROXY).cast(pl.Categorical),
            measured=~pl.col("queue_source").is_in(["none", INFERRED]),
            unserved=pl.col("status").is_in(UNSERVED) | ~pl.col("answered") | lasted.is_null(),
            arrival="__arrival",
            departure=pl.col("__arrival") + (lasted * 1e6).round().cast(pl.Int64),
            finish=epoch - base + (pl.col("request_time") * 1e6).round().cast(pl.Int64),
        )
        .collect(engine="streaming")
    )  # fmt: skip
    return table, datetime.fromtimestamp(0, UTC) + timedelta(microseconds=base)


def _unusable(part: pl.DataFrame, served: pl.DataFrame) -> str:
    """Return why a log allows no inference, and what to add to it; empty if it does."""
    if part["vantage"][0] == WHOLE:
        return "The log does not say how long the backend took: add $upstream_response_time to nginx's log_format."
    if _coarsest(part) > COARSEST_STEP and len(served):
        slow = served.select((pl.col("finish") - pl.col("departure") > SLOW_CLIENT * 1e6).mean()).item() or 0.0
        if slow > MOST_SLOW:
            return SLOW_CLIENTS
    return ""


def _error(part: pl.DataFrame) -> float:
    """Return the error of the instants, s: of stamps finer than milliseconds, a fifth of nginx's."""
    return STAMP_ERROR if _coarsest(part) >= COARSEST_STEP else STAMP_ERROR / 5


def _coarsest(part: pl.DataFrame) -> float:
    """Return the largest step of the instants, s."""
    largest = part["time_step"].max()
    return COARSEST_STEP if largest is None else round(float(largest), 9)  # type: ignore[arg-type]

"""The section of ``infer``."""

from __future__ import annotations

import functools

import polars as pl

from sojourn.analyses.infer.analysis import InferResult, result_of
from sojourn.analyses.infer.charts import service_against_depth
from sojourn.analyses.question import ReportContext
from sojourn.components.inferred.backends import TOO_MANY, BackendInference
from sojourn.estimation.inferred import INFERRED, LOWER_BOUND, REFUSED, Inference, Window
from sojourn.model.coverage import ENOUGH
from sojourn.model.formatting import counted, formatted, milliseconds, printable
from sojourn.model.groups import LARGEST
from sojourn.present.display import lay_out
from sojourn.present.section import Picture, Section, Table

MEASURES = (
    "Wait: from the instant the proxy turned to the backend to the begin of the service, which is inferred: in a "
    "first-come-first-served queue, the instant at which one of the workers was free. Service: from there to the end "
    "of the backend's response."
)
NAMES = {INFERRED: "inferred", LOWER_BOUND: "lower bound", REFUSED: "refused"}
PICTURED = 3  # backends
QUEUED = 0.001  # s: a shorter mean wait in the proxy is not mentioned
FLAT = 0.1  # of the mean service time
ERRORS = 2.0  # standard errors


@lay_out.register(InferResult)
def infer_section(result: InferResult) -> Section:
    """Return the section of ``infer``."""
    return Section(
        key="infer",
        title="Inferred queue",
        sentence=sentence(result),
        measures=MEASURES,
        tables=tuple(_tables(result)),
        pictures=tuple(_pictures(result)),
        notes=tuple(_notes(result)),
    )


def report_section(context: ReportContext) -> Section | None:
    """Return the section of a report; None where the queue is measured."""
    if not context.requests.inferred:
        return None
    requests = context.requests
    return infer_section(result_of(list(requests.inferred), requests.records.formats, requests.rows))


def sentence(result: InferResult) -> str:
    """Return the finding of the backend with most requests in one sentence."""
    first = result.backends[0]
    others = f" ({counted(len(result.backends) - 1, 'other backend')} below.)" if len(result.backends) > 1 else ""
    if first.result.verdict == REFUSED:
        return f"Not inferred for {first.name}: {first.result.reason}{others}"
    least = "at least " if first.result.verdict == LOWER_BOUND else ""
    return (
        f"Requests to {first.name} waited {least}{milliseconds(first.wait['mean'])} ms on average, inferred from "
        f"{counted(first.inferred, 'request')}. {first.result.reason}{others}"
    )


def _tables(result: InferResult) -> list[Table]:
    backends = Table(
        ("backend", "verdict", "requests", "workers", "wait mean", "p50", "p99", "service mean", "p99"),
        tuple(_row(backend) for backend in result.backends), title="ms", text_columns=2,
    )  # fmt: skip
    ranges = Table(
        ("backend", "workers", "mean wait", "p99", "without a model"),
        tuple(_range(backend) for backend in result.backends if _ranged(backend.result)),
        title="What is not excluded, ms",
    )
    parts = Table(
        ("backend", "from (UTC)", "to (UTC)", "workers", "set"),
        tuple(
            _window(backend, window)
            for backend in result.backends
            if backend.result.verdict != REFUSED
            for window in backend.result.windows
        ),
        title="Parts with a number of workers of their own", text_columns=3,
    )  # fmt: skip
    checks = Table(
        ("backend", "check", "", "statistic"),
        tuple(
            (backend.name, check.name.replace("_", " "), "FAILED" if check.failed else "holds",
             formatted(check.statistic, "+.3f"))
            for backend in result.backends for check in backend.result.checks
        ),
        title="Checks", text_columns=3, shown=20,
    )  # fmt: skip
    return [table for table in (backends, ranges, parts, checks) if table.rows]


def _window(backend: BackendInference, window: Window) -> tuple[str, ...]:
    begin, end = (f"{backend.at(instant):%H:%M:%S}" for instant in (window.begin, window.end))
    return (backend.name, begin, end, str(window.workers), _set(window))


def _row(backend: BackendInference) -> tuple[str, ...]:
    result = backend.result
    begin = (backend.name, NAMES[result.verdict], f"{backend.requests:,}")
    if result.verdict == REFUSED:
        return (*begin, *["–"] * 6)
    wait, service = backend.wait, backend.service
    figures = (wait["mean"], wait["p50"], wait["p99"], service["mean"], service["p99"])
    return (*begin, str(result.workers), *map(milliseconds, figures))


def _ranged(result: Inference) -> bool:
    return result.excess is not None if result.verdict == REFUSED else result.mean_range is not None


def _range(backend: BackendInference) -> tuple[str, ...]:
    result = backend.result
    excess = "–"
    if result.excess is not None:
        excess = f"{milliseconds(result.excess[0])} ± {milliseconds(result.excess[1])}"
    if result.verdict == REFUSED:
        return (backend.name, "–", "–", "–", excess)
    return (backend.name, _set(result), _between(result.mean_range), _between(result.p99_range), excess)


def _set(result: Inference | Window) -> str:
    if result.highest is None:
        return f"{result.lowest} or more"
    return str(result.lowest) if result.lowest == result.highest else f"{result.lowest}–{result.highest}"


def _between(ends: tuple[float, float] | None) -> str:
    if ends is None:
        return "–"
    low, high = map(milliseconds, ends)
    return low if low == high else f"{low}–{high}"


def _pictures(result: InferResult) -> list[Picture]:
    pictures = []
    refused = {backend.name for backend in result.backends if backend.result.verdict == REFUSED}
    for number, name in enumerate(result.service["upstream"].unique(maintain_order=True).to_list()[:PICTURED]):
        table = result.service.filter(pl.col("upstream") == name)
        pictures.append(
            Picture(
                f"infer-service-{number}",
                f"Inferred service time by depth, {printable(name, 60)}" + (" (refused)" if name in refused else ""),
                "Mean inferred service time of the requests by how many others were in the system when they arrived, "
                "with its 95 % interval. In "
                "a first-come-first-served queue it is the same at every depth; a slope means that workers share "
                "something, that the order is another one, or that the log does not show all requests.",
                functools.partial(service_against_depth, table),
                _slope(table, refused=name in refused),
            )
        )
    return pictures


def _slope(table: pl.DataFrame, *, refused: bool) -> str:
    mean = float((table["service"] * table["requests"]).sum()) / max(int(table["requests"].sum()), 1)
    low, high = float(table["service"].min() or 0.0), float(table["service"].max() or 0.0)  # type: ignore[arg-type]
    # What a mean of few requests is off by chance is no slope.
    apart = ((table["service"] - mean).abs() - ERRORS * table["error"]).max()
    steady = float(apart or 0.0) <= FLAT * mean  # type: ignore[arg-type]
    if refused:
        flat = "flat, but another check failed" if steady else "not flat, so this is no such queue"
        times = f"{milliseconds(low)} and {milliseconds(high)} ms"
        return f"With the number of workers that fits best, between {times}: {flat}."
    return f"Between {milliseconds(low)} and {milliseconds(high)} ms, {milliseconds(mean)} ms on average: " + (
        "flat, as in a first-come-first-served queue."
        if steady
        else "not flat at every depth; the checks say whether by chance."
    )


def _notes(result: InferResult) -> list[str]:
    notes = [f"{printable(each.source, 100)}: {text}" for each in result.formats for text in each.warnings]
    notes += [f"{printable(each.sentence, 300)} {printable(each.reading, 600)}" for each in result.formats]
    if any(each.result.verdict != REFUSED for each in result.backends):
        notes.append(
            "Inferred, not measured. The number of workers is that of the bottleneck: behind a pool of connections it "
            "is the size of the pool. Load that this log does not show makes waits look shorter than they are."
        )
    for each in result.backends:
        for proxy, seconds in each.skews.items():
            side = "ahead of" if seconds > 0 else "behind"
            notes.append(
                f"The clock of {printable(proxy, 60)} is {milliseconds(abs(seconds))} ms {side} that of the proxy with "
                f"most requests to {each.name}, estimated from the log, and is corrected for it."
            )
        if (queued := result.proxy_queue.get(each.upstream, 0.0)) >= QUEUED:
            notes.append(
                f"Requests to {each.name} waited {milliseconds(queued)} ms on average in the proxy's own queue before "
                "that, which the log measures: their queueing delay is the sum."
            )
        if each.result.contradictions and each.result.verdict != REFUSED:
            left = counted(each.result.contradictions, f"request to {each.name}", f"requests to {each.name}")
            notes.append(f"{left} left before the begin of the service, by more than the stamps' error.")
    if beyond := [each for each in result.backends if each.result.reason == TOO_MANY]:
        requests = sum(each.requests for each in beyond)
        notes.append(
            f"{counted(len(beyond), 'backend')} with {counted(requests, 'request')} in all are not inferred: each has "
            f"fewer than {ENOUGH} requests, and is not among the {LARGEST:,} with the most. Select some with --where."
        )
    if any(each.result.verdict == REFUSED for each in result.backends):
        notes.append(
            "What is refused can be measured: by the stamp in nginx and the middleware in the app, or in the log of a "
            "proxy that knows (docs/how-to/without-touching-anything.md)."
        )
    return notes

"""What a whole report holds beside the split: every analysis of the same requests, one section each."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sojourn.analyses.split.result import SplitResult
from sojourn.model.errors import SojournError
from sojourn.model.verdict import SLO
from sojourn.present.section import Section
from sojourn.readers.inputs import Source, stores_and_files
from sojourn.sources.traces import Traces, read_traces

# Read besides what the split needs.
COLUMNS = ("request_id", "trace_id", "span_id", "remote_addr", "method", "uri", "connection")


def traces_of(sources: Sequence[Source], spans: Sequence[Source] | None) -> Traces | None:
    """The spans of files and run folders where they come from several services; None where there is nothing to follow.

    Raises:
        SojournError: a file cannot be read.
    """
    _, files = stores_and_files(sources)
    folders = [file for file in files if os.path.isdir(file) and any(Path(file).glob("spans.jsonl*"))]
    named = [*(spans or ()), *folders]
    traces = read_traces(named) if named else None
    return traces if traces is not None and traces.spans["service"].n_unique() > 1 else None


def sections_of(
    result: SplitResult,
    *,
    by: str = "route",
    workers: int | Mapping[str, int] | None = None,
    slo: float = SLO,
    before: SplitResult | None = None,
    traces: Traces | None = None,
    told: Callable[[str], None] = lambda _: None,
) -> list[Section]:
    """Every section there is something to say in, in the order to be read.

    An analysis that these requests do not allow says why in its place; it takes nothing from the others.

    Args:
        result: the split, with ``COLUMNS`` and ``by`` among the columns read.
        by: names victims and culprits, and divides wasted work and changes.
        workers: per backend; None: read off the worker values.
        slo: p99 of the response time that must hold, s.
        before: another split to compare with: what changed since.
        traces: spans of several services, as from ``sojourn.sources.traces.read_traces``.
        told: told the title of each analysis before it begins.
    """
    found = []
    for key, title, make in _analyses(result, by, workers, slo, before, traces):
        told(title)
        try:
            found.append(make())
        except SojournError as error:
            found.append(Section(key, title, f"Nothing to tell: {error}."))
    return found


def section_of(
    result: SplitResult,
    key: str,
    *,
    by: str = "route",
    workers: int | Mapping[str, int] | None = None,
    slo: float = SLO,
) -> Section:
    """One section by its key; arguments as of ``sections_of``.

    Raises:
        SojournError: these requests do not allow the analysis.
    """
    made = {name: make for name, _, make in _analyses(result, by, workers, slo, None, None)}
    return made[key]()


Analysis = tuple[str, str, Callable[[], Section]]


def _analyses(
    result: SplitResult,
    by: str,
    workers: int | Mapping[str, int] | None,
    slo: float,
    before: SplitResult | None,
    traces: Traces | None,
) -> Sequence[Analysis]:
    # Each import is the cost of one analysis: numba, scipy.
    from sojourn.timeline.visits import Visits, visits  # noqa: PLC0415

    @functools.cache
    def visited() -> Visits:
        """What three of the analyses begin with, made once."""
        wanted = (by, "header", "request_id", "uri", "app_service", "span_seconds")
        known = result.rows.collect_schema().names()
        return visits(result.rows, columns=[name for name in wanted if name in known], workers=workers)

    def blamed() -> Section:
        from sojourn.analyses.blame.analysis import blame_of  # noqa: PLC0415
        from sojourn.analyses.blame.section import blame_section  # noqa: PLC0415

        return blame_section(blame_of(visited(), by=by))

    def depths() -> Section:
        from sojourn.analyses.depth.analysis import depth_of  # noqa: PLC0415
        from sojourn.analyses.depth.section import depth_section  # noqa: PLC0415

        return depth_section(depth_of(visited()))

    def goodputs() -> Section:
        from sojourn.analyses.goodput.analysis import goodput  # noqa: PLC0415
        from sojourn.analyses.goodput.section import goodput_section  # noqa: PLC0415

        return goodput_section(goodput(result.rows, by=by))

    def law() -> Section:
        from sojourn.analyses.laws.analysis import laws  # noqa: PLC0415
        from sojourn.analyses.laws.section import laws_section  # noqa: PLC0415

        return laws_section(laws(visited(), result.audit))

    def capacities() -> Section:
        from sojourn.analyses.capacity.analysis import capacity  # noqa: PLC0415
        from sojourn.analyses.capacity.knee import Slo  # noqa: PLC0415
        from sojourn.analyses.capacity.section import capacity_section  # noqa: PLC0415
        from sojourn.timeline.load_windows import load_windows  # noqa: PLC0415

        return capacity_section(capacity(load_windows(result.rows), slos=[Slo.of(f"p99={slo}")]))

    def whatifs() -> Section:
        from sojourn.analyses.whatif.analysis import whatif  # noqa: PLC0415
        from sojourn.analyses.whatif.section import whatif_section  # noqa: PLC0415

        return whatif_section(whatif(result.rows, workers=workers))

    def clocks() -> Section:
        from sojourn.analyses.clock.analysis import clock  # noqa: PLC0415
        from sojourn.analyses.clock.section import clock_section  # noqa: PLC0415

        return clock_section(clock(result.rows))

    def compared() -> Section:
        from sojourn.analyses.compare.analysis import compare  # noqa: PLC0415
        from sojourn.analyses.compare.section import compare_section  # noqa: PLC0415

        assert before is not None  # noqa: S101 - only then is it asked for
        return compare_section(compare(before, result, by=by, names=("before", "now")))

    def tiered() -> Section:
        from sojourn.analyses.tiers.analysis import tiers  # noqa: PLC0415
        from sojourn.analyses.tiers.section import tiers_section  # noqa: PLC0415

        assert traces is not None  # noqa: S101 - only then is it asked for
        return tiers_section(tiers(traces, result.rows))

    def wired() -> Section:
        from sojourn.analyses.wire.section import wire_section  # noqa: PLC0415

        assert result.wire is not None  # noqa: S101 - only then is it asked for
        return wire_section(result.wire, audited=True)  # the audit has its checks

    found: list[Analysis] = [
        ("blame", "Who waited for whom", blamed),
        ("depth", "How deep the queue was", depths),
        ("goodput", "Work for nobody", goodputs),
        ("capacity", "How far from the cliff", capacities),
        ("laws", "What theory says", law),
        ("whatif", "What would have helped", whatifs),
    ]
    if before is not None:
        found.append(("compare", "What changed", compared))
    if traces is not None:
        found.append(("tiers", "Across tiers", tiered))
    if result.wire is not None:
        found.append(("wire", "What the packets show", wired))
    return [*found, ("clock", "The clocks", clocks)]

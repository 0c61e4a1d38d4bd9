"""Build the result of a split from aggregates, whichever engine computed them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sojourn.analyses.audit.analysis import audit_of
from sojourn.analyses.audit.incident import Incident
from sojourn.analyses.audit.reading import alternative_of
from sojourn.analyses.audit.result import Audit
from sojourn.analyses.split.culprit import MIXED, QUEUEING, culprit_of, with_culprit
from sojourn.analyses.split.inside import inner_waits
from sojourn.analyses.split.notes import notes
from sojourn.analyses.split.result import SplitResult
from sojourn.estimation.inferred import LOWER_BOUND, REFUSED
from sojourn.model.column_errors import near_names
from sojourn.model.components import QUEUE_SOURCES
from sojourn.model.coverage import Coverage, Waits
from sojourn.model.errors import SojournError
from sojourn.model.formatting import counted
from sojourn.model.groups import GROUPS, LARGEST
from sojourn.model.measures import GROUP_COLUMNS, Measures, Row
from sojourn.model.parallel import in_threads
from sojourn.model.statistics import summary_of
from sojourn.model.verdict import Directives, Evidence, Verdict, verdict
from sojourn.readers.missing_times import lacks_times, lines_to_add
from sojourn.sources.frame_measures import FrameMeasures
from sojourn.sources.open_requests import OpenedRequests


def checked_groups(by: Sequence[str]) -> None:
    """Check names of groups.

    Raises:
        SojournError: a name is not one of ``GROUPS``.
    """
    unknown = [group for group in by if group not in GROUPS]
    if unknown:
        near = near_names(unknown[0], GROUPS)
        hint = f"did you mean {near[0]!r}? Choose" if near else "choose"
        raise SojournError(f"cannot group by {unknown[0]!r}; {hint} from {', '.join(GROUPS)}")


def split_of(
    requests: OpenedRequests, *, by: Sequence[str], slo: float, directives: Directives | None = None
) -> SplitResult:
    """Return the split of opened requests.

    Args:
        requests: the requests; of a store only aggregates are queried.
        by: columns to group by, any of ``GROUPS``.
        slo: a p99 below this, with little queueing, is healthy, in seconds.
        directives: of nginx's configuration, as for ``sojourn.model.verdict.verdict``.
    """
    measures = requests.measures
    overall = requests.once("overall", measures.overall)
    figures = dict(requests.once("figures", measures.figures))
    _, means, evidence, waits = measures.means()
    response = figures.pop("request_time")
    p99 = response["p99"] or 0.0
    slow, tail_means, tail_evidence, tail_waits = measures.means(p99)
    works: list[Callable[[], Any]] = [
        lambda: inner_waits(requests, means, p99),
        lambda: audit_of(requests),
        lambda: measures.grouped_each(by, LARGEST),
    ]
    # Those of a frame are compiled code. The connection of a store is used by one thread.
    at_once = len(works) if isinstance(measures, FrameMeasures) else 1
    inner, checked, groups = in_threads(lambda work: work(), works, at_once=at_once)
    if inner is not None:
        evidence = inner.in_evidence(evidence, inner.mean)
        tail_evidence = inner.in_evidence(tail_evidence, inner.tail_mean)
    judged = _verdict(
        means,
        tail_means,
        p99,
        overall,
        checked.known,
        slo,
        (evidence, tail_evidence),
        directives,
        (waits, tail_waits),
        alternative_of(requests.records),
    )
    culprit = culprit_of(requests) if judged.cause in (QUEUEING, MIXED) else None
    judged = _marked(with_culprit(judged, culprit), requests, checked)
    addable = waits.share is None and lacks_times(requests.records.formats)
    if addable:
        judged = Verdict("unknown", lines_to_add(sum(means.values()), alternative_of(requests.records)), "unknown")
    result = SplitResult(
        measures=measures,
        records=requests.records,
        names=requests.names,
        audited=requests.audited,
        window=None if overall["first"] is None else (overall["first"], overall["last"]),
        clock=measures.clock,
        response_time=response,
        components=figures,
        means=means,
        evidence=evidence,
        queueing_share=waits.share,
        tail={
            "p99": {
                "threshold": response["p99"],
                "requests": slow,
                "queueing_share": tail_waits.share,
                "components": tail_means,
            }
        },
        audit=checked,
        verdict=judged,
        culprit=culprit,
        lacks_times=addable,
        by={},
        by_total={},
        sources={s: n for s in QUEUE_SOURCES if (n := overall[f"source/{s}"])},
        wasted=overall["wasted"] or 0.0,
        requests=overall["requests"],
        inferred=requests.inferred,
        inner=inner,
        incident=_incident(measures, checked.incident),
        _rows=lambda: requests.rows,
        _derived=requests._derived,
        where=requests.where,
        _whole=requests._whole,
    )
    for group, (rows, total) in zip(by, groups, strict=True):
        result.by[group], result.by_total[group] = _group_rows(group, rows), total
    result.notes = [*measures.notes, *notes(result), *(inner.notes if inner is not None else ())]
    return result


def _incident(measures: Measures, incident: Incident | None) -> dict[str, object] | None:
    """Return the figures of the requests of an incident."""
    if incident is None:
        return None
    part = measures.between(incident.begin, incident.end)
    figures = part.figures()
    names = ("request_time", "queueing_delay", "service_time")
    return {
        "requests": incident.requests,
        **{"response_time" if name == "request_time" else name: figures[name] for name in names},
        "queueing_share": part.means().waits.share,
    }


def _verdict(
    means: dict[str, float],
    tail: dict[str, float],
    p99: float,
    overall: Row,
    coverage: Coverage,
    slo: float,
    evidence: tuple[Evidence, Evidence],
    directives: Directives | None,
    waits: tuple[Waits, Waits],
    alternative: str,
) -> Verdict:
    requests, upgraded = overall["requests"], overall["upgraded"]
    if requests <= upgraded:
        why = (
            f"all {counted(upgraded, 'request was', 'requests were')} upgraded connections (101)"
            if upgraded
            else "no request was accepted"
        )
        return Verdict("unknown", f"There is nothing to judge: {why}.", "unknown")
    return verdict(means, tail, p99, requests, slo, coverage, evidence, directives, waits, alternative)


def _marked(judged: Verdict, requests: OpenedRequests, audit: Audit) -> Verdict:
    """Return the verdict with the incident, and with the information that queueing delays are inferred."""
    if audit.incident is not None and judged.cause != "unknown":
        judged = replace(judged, sentence=f"{judged.sentence} {audit.incident.sentence}")
    inferred = [each for each in requests.inferred if each.result.verdict != REFUSED]
    if not inferred:
        return judged
    only = len(inferred) == 1 and audit.known.number == 1
    more = f" and {len(inferred) - 1} more" if len(inferred) > 1 else ""
    which = "" if only else f" of {inferred[0].name}{more}"
    bound = ", and is at least that" if any(each.result.verdict == LOWER_BOUND for each in inferred) else ""
    sentence = f"{judged.sentence} The queueing delay{which} is inferred from the log, not measured{bound}."
    return replace(judged, sentence=sentence)


def _group_rows(group: str, rows: Sequence[Row]) -> list[dict[str, object]]:
    """Return the rows of a group's values as they are in the JSON."""
    groups = []
    for row in rows:
        entry: dict[str, object] = {group: row[group], "requests": row["requests"], "queueing_share": row["share"]}
        for column in GROUP_COLUMNS:
            entry["response_time" if column == "request_time" else column] = summary_of(row, column)
        groups.append(entry)
    return groups

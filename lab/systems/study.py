"""What Sojourn says of a kind of system, statement by statement, compared with the truth."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import sojourn
from sojourn.analyses.blame.analysis import BlameResult
from sojourn.analyses.blame.section import blame_section
from sojourn.analyses.depth.section import depth_section
from sojourn.analyses.laws.section import laws_section
from sojourn.analyses.split.section import split_section
from sojourn.analyses.whatif.section import whatif_section
from sojourn.analyses.whatif.sharing import Sharing
from sojourn.analyses.whatif.workers_needed import workers_needed
from sojourn.analyses.whatif.workload import Workload, workload_of
from sojourn.estimation.inferred import LOWER_BOUND
from sojourn.export.memory import Memory
from sojourn.export.state import ServiceState, retried
from sojourn.model.errors import SojournError
from sojourn.model.objective import Objective, objective_of
from sojourn.model.verdict import CLIENT, WORDS
from sojourn.present.section import Section
from sojourn.timeline.contention.load_dependence import LoadDependence
from sojourn_lab.results.waits_by_cause import largest_difference, stated_accounts

from systems.log import write_log
from systems.registry import Kind
from systems.requests import Change
from systems.truth import Truth

RIGHT, REFUSED, WRONG = "right", "refused", "wrong"
# The columns of clients, as the commands `whatif` and `export` read them.
OF_CLIENTS = ("remote_addr", "connection", "method", "uri")
CELL = 0.03  # of the waiting: error of an account, or of a route and phase
APART = {
    "processes": {"processes=one_queue": Change(one_queue=True)},
    "limit": {"limit=+1": Change(limit=1)},
    "absences": {"absent=none": Change(never_absent=True)},
    "places": {"pool=+1": Change(cores=1)},
}
HALF = 0.5  # of the waits: with more in queues, they are queueing
QUEUE = 0.005  # s: a mean wait for workers above this is a queue
OBJECTIVE = objective_of("queueing_delay:p95=0.1")
CAUTION = re.compile(
    r"at least|lower bound|unknown|does not show|looked free|unreliable|not in the log|does not (?:know|say)|in doubt|"
    r"something is shared",
    re.IGNORECASE,
)
NO_QUEUE = re.compile(r"not a queue|no significant queueing|mostly the way to a free worker", re.IGNORECASE)


@dataclass(frozen=True)
class Statement:
    """One statement of Sojourn: what it is about, what is said, the truth, and right, refused or wrong."""

    about: str
    said: str
    truth: str
    judgement: str


@dataclass(frozen=True)
class Finding:
    """The statements on one kind of system, and those on its log without what the app reports."""

    kind: str
    theme: str
    truth: str
    statements: list[Statement]
    plain: list[Statement] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


def studied(kind: Kind, folder: Path | None = None, *, plain: bool = True) -> Finding:
    """Simulate a kind, have Sojourn analyse its log, and judge each statement.

    Args:
        kind: the kind of system.
        folder: where its log is written; None: a temporary one.
        plain: analyse its log without what the app reports, too.
    """
    if folder is None:
        with tempfile.TemporaryDirectory() as temporary:
            return studied(kind, Path(temporary), plain=plain)
    log, spans, truth = kind.written(folder)
    result = sojourn.split(str(log), spans=[str(spans)] if spans else (), columns=OF_CLIENTS)
    judges = (_verdict, _blame, _utilisation, _laws, _whatif, _workers_needed)
    statements = [statement for judge in judges for statement in judge(result, truth)]
    return Finding(
        kind.name, kind.theme, truth.facts.words, statements, _studied_plain(kind, folder, truth) if plain else []
    )


def _studied_plain(kind: Kind, folder: Path, truth: Truth) -> list[Statement]:
    """Judge what is said of the log of a kind without what the app reports."""
    log = folder / f"{kind.name}-plain.jsonl"
    write_log(log, truth.served().requests, plain=True)
    result = sojourn.split(str(log), columns=OF_CLIENTS)
    judges = (_inferred, _verdict, _blame, _utilisation, _laws, _whatif)
    return [statement for judge in judges for statement in judge(result, truth)]


def _cautions(section: Section) -> list[str]:
    """Return what a section says against its own figures: failures, and notes that express a doubt."""
    return [*section.failures, *(note for note in section.notes if CAUTION.search(note))]


def _judged(right: bool, cautions: Sequence[str]) -> str:
    return RIGHT if right else REFUSED if cautions else WRONG


def _said(text: str, cautions: Sequence[str]) -> str:
    return f"{text} [{cautions[0]}]" if cautions else text


def _inferred(result: sojourn.SplitResult, truth: Truth) -> Iterator[Statement]:
    """Judge the mean of the inferred wait; of a lower bound, that it is one."""
    inferred = sojourn.infer(result).backends
    verdicts = {each.result.verdict for each in inferred}
    text = f"{truth.waited * 1e3:,.0f} ms"
    if not inferred or REFUSED in verdicts:
        yield Statement("inferred wait", " ".join(each.sentence for each in inferred) or "nothing", text, REFUSED)
        return
    requests = sum(each.inferred for each in inferred)
    wait = sum(each.wait["mean"] * each.inferred for each in inferred) / requests
    response, _ = truth.response()
    bound = LOWER_BOUND in verdicts
    small = wait - truth.waited <= max(0.02 * response, 0.003)
    right = small if bound else abs(wait - truth.waited) <= max(0.05 * response, 0.003)
    stated = f"{'at least ' if bound else ''}{wait * 1e3:,.0f} ms"
    yield Statement("inferred wait", stated, text, RIGHT if right else WRONG)


def _verdict(result: sojourn.SplitResult, truth: Truth) -> Iterator[Statement]:
    cause, sentence = result.verdict.cause, result.verdict.sentence
    cautions = _cautions(split_section(result))
    if CAUTION.search(sentence):
        cautions = [sentence, *cautions]
    shares = truth.causes
    largest = max(shares, key=lambda name: shares[name])
    if cause == "unknown":
        judgement = REFUSED
    elif any(excluded == cause or f"went {WORDS.get(excluded)}" in sentence for excluded in truth.facts.excluded):
        judgement = _judged(False, cautions)
    elif cause == "healthy":
        judgement = _judged(truth.response()[1] <= 0.55 and shares["queueing"] <= 0.4, cautions)
    elif cause == "mixed":
        judgement = RIGHT
    elif cause == CLIENT:
        judgement = _judged(shares["before"] + shares["after"] >= 0.5, cautions)
    else:
        judgement = _judged(shares.get(cause, 0.0) >= 0.5, cautions)
    yield Statement("verdict", _said(sentence, cautions), f"{largest} {shares[largest]:.0%}", judgement)


def _blame(result: sojourn.SplitResult, truth: Truth) -> Iterator[Statement]:
    blame = sojourn.blame(result)
    section = blame_section(blame)
    cautions = _cautions(section)
    denies = bool(NO_QUEUE.search(section.sentence))
    queues = truth.queued > QUEUE
    if section.sentence.startswith("Unknown") or CAUTION.search(section.sentence):
        cautions = [section.sentence, *cautions]
    yield Statement(
        "queue",
        _said(section.sentence, cautions),
        f"{truth.queued * 1e3:,.0f} ms of {truth.said_wait * 1e3:,.0f} ms waited for workers",
        # A denial is refused only where nothing is denied: it is wrong whatever is added to it.
        (WRONG if queues else RIGHT)
        if denies
        else _judged(truth.queued >= HALF * truth.said_wait or truth.said_wait <= QUEUE, cautions),
    )
    waited = max(blame.waited, 1e-9)
    idle = 1.0 - truth.queued / truth.said_wait
    if queues:
        yield Statement(
            "free workers",
            _said(f"{blame.dispatch / waited:.0%} of the waiting", cautions),
            f"{idle:.0%}",
            _judged(blame.dispatch / waited <= idle + 0.1, cautions),
        )
    yield from _cells(blame, truth, cautions)
    shares = truth.blame if blame.queue_source.inferred else truth.culprits
    true_culprit = max(shares, key=lambda name: shares[name], default=None)
    if not queues or true_culprit is None or blame.blamed < CELL * waited:
        return
    top = blame.culprits.row(0, named=True)
    share = shares.get(top["culprit"], 0.0)
    yield Statement(
        "culprit",
        _said(f"{top['culprit']} {top['share']:.0%} of the blamed seconds", cautions),
        f"{true_culprit} {shares[true_culprit]:.0%}",
        _judged(share >= shares[true_culprit] - 0.1 and abs(top["share"] - share) <= 0.15, cautions),
    )  # fmt: skip


def _cells(blame: BlameResult, truth: Truth, cautions: Sequence[str]) -> Iterator[Statement]:
    """Judge the share of each account, and of each route and phase, of the whole wait.

    Of an inferred queue the places may be workers, a limit or a pool: what holds them is judged by its routes only.
    """
    true_accounts = truth.accounts
    if not true_accounts or truth.queued <= QUEUE or blame.waited <= 0 or blame.queue_source.inferred:
        return
    stated = stated_accounts(blame)
    worst, off = largest_difference(stated, true_accounts)
    largest = sorted(stated, key=lambda name: -stated[name])[:3]
    yield Statement(
        "accounts",
        _said(", ".join(f"{name} {stated[name]:.1%}" for name in largest), cautions),
        f"{worst} {true_accounts.get(worst, 0.0):.1%}",
        _judged(abs(off) <= CELL, cautions),
    )


def _utilisation(result: sojourn.SplitResult, truth: Truth) -> Iterator[Statement]:
    depth = sojourn.depth(result)
    stated = depth.overall["utilisation"]
    cautions = _cautions(depth_section(depth))
    if depth.overall.get("lower_bound") or depth.overall.get("utilisation_lower_bound"):
        cautions = ["a lower bound", *cautions]
    true_utilisation = truth.utilisation
    text = "unknown" if true_utilisation is None else f"{true_utilisation:.0%}"
    if stated is None or math.isnan(stated):
        yield Statement("utilisation", "nothing", text, REFUSED)
        return
    right = true_utilisation is not None and abs(stated - true_utilisation) <= 0.1
    yield Statement("utilisation", _said(f"{stated:.0%}", cautions), text, _judged(right, cautions))


def _laws(result: sojourn.SplitResult, truth: Truth) -> Iterator[Statement]:
    """Judge the utilisation that the laws are computed with; a law that does not apply has none."""
    try:
        stations = sojourn.laws(result)
    except SojournError as error:
        yield Statement("laws", str(error), "", REFUSED)
        return
    true_utilisation = truth.utilisation
    text = "unknown" if true_utilisation is None else f"{true_utilisation:.0%}"
    whole = stations.stations[0]
    stated = whole.station.utilisation
    cautions = _cautions(laws_section(stations))
    if whole.lower_bound:
        cautions = ["a lower bound", *cautions]
    if whole.believed is None or whole.believed.mean_wait is None:
        cautions = [whole.sentence, *cautions]
    right = true_utilisation is not None and abs(stated - true_utilisation) <= 0.1
    yield Statement("laws", _said(f"λS/c {stated:.0%}. {whole.sentence}", cautions), text, _judged(right, cautions))


def _whatif(result: sojourn.SplitResult, truth: Truth) -> Iterator[Statement]:
    heaviest = truth.heaviest
    changes = {
        "workers=+1": Change(workers=1),
        "workers=+2": Change(workers=2),
        f"service:{heaviest}=x0.5": Change(scale={heaviest: 0.5}),
    }
    if truth.facts.apart:
        changes |= APART[truth.facts.apart]
    settings = [dict([name.rsplit("=", 1)]) for name in changes]
    try:
        predicted = sojourn.whatif(result, settings)
    except SojournError as error:
        yield from (Statement(name.replace(heaviest, "ROUTE"), str(error), "", REFUSED) for name in changes)
        return
    cautions = _cautions(whatif_section(predicted))
    by_setting = {tuple(variant.settings.items()): variant for variant in predicted.variants}
    for (name, change), setting in zip(changes.items(), settings, strict=True):
        mean, p99 = truth.response(change)
        about = name.replace(heaviest, "ROUTE")
        text = f"{mean * 1e3:,.0f} / {p99 * 1e3:,.0f} ms"
        variant = by_setting.get(tuple(setting.items()))
        if variant is None:
            reasons = [change.reason for change in predicted.withheld if change.settings == setting]
            reason = predicted.refused or "; ".join(reasons)
            # A reason is a statement, too.
            false = truth.facts.ordered and "--workers" in reason
            yield Statement(about, f"refused: {reason}", text, WRONG if false else REFUSED)
            continue
        figures = variant.response_time
        said_mean, said_p99 = figures["mean"] or 0.0, figures["p99"] or 0.0
        right = abs(said_mean - mean) <= max(0.15 * mean, 0.005) and abs(said_p99 - p99) <= 0.25 * p99
        prediction = _said(f"{said_mean * 1e3:,.0f} / {said_p99 * 1e3:,.0f} ms", cautions)
        yield Statement(about, prediction, text, _judged(right, cautions))


def _shared(workload: Workload) -> tuple[Workload, Objective, None, Sharing | None]:
    """Return the arguments of ``workers_needed``: what the services of a workload share is estimated."""
    return workload, OBJECTIVE, None, Sharing.likeliest(workload, LoadDependence.of(workload.visits).contention)


def _workers_needed(result: sojourn.SplitResult, truth: Truth) -> Iterator[Statement]:
    rows = result.rows
    first, last = rows.select(first=pl.col("start").min(), last=pl.col("time").max()).collect().row(0)
    state = ServiceState("shop", rows, last, first, (last - first).total_seconds(), Memory())
    emitted = [
        sample.value
        for sample in state.signals([OBJECTIVE])
        if sample.name == "sojourn_workers_needed" and sample.labels[-1] == "replay"
    ]
    needed = truth.needed if truth.facts.workers else None
    text = "none" if needed is None else str(needed)
    # The signal adds the requests that wait at the end to those of the next window; the truth is that of the log alone.
    requests = rows.collect()
    firsts = requests.filter(~retried(requests)).lazy()
    signal = workers_needed(*_shared(workload_of(firsts))) if emitted else None
    if signal is None:
        yield Statement("workers_needed", "nothing", text, REFUSED)
        return
    unit = truth.served().workers // len({r.backend for r in truth.served().requests})
    several = unit < truth.served().workers
    allowed = 0.0 if needed is None else max(float(unit) if several else 1.0, 0.2 * needed)
    right = needed is not None and abs(signal - needed) <= allowed
    yield Statement("workers_needed", f"{signal:.0f}", text, RIGHT if right else WRONG)

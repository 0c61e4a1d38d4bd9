"""The tables of blame, computed from the charged seconds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import polars as pl

from sojourn.model.arrays import Bools, Floats, Ints
from sojourn.model.frame import INSTANT
from sojourn.model.redaction import displayed_uri
from sojourn.timeline.charge import DISPATCH, IMBALANCE, Accounts
from sojourn.timeline.classes import summed
from sojourn.timeline.phases import PHASES
from sojourn.timeline.services import Services
from sojourn.timeline.visits import Visits
from sojourn.timeline.windows import Windows

BLAMED = "blamed"
MOST_REQUESTS = 10


def matrix_table(cells: Floats, victims: Sequence[str], culprits: Sequence[str], blamed: float) -> pl.DataFrame:
    """Return victim, culprit, seconds, share, of ``cells`` (victims × culprits; the last culprit: unknown)."""
    # Cells of 0 s may be negative by rounding.
    victim, culprit = np.nonzero(cells > 0)
    seconds = cells[victim, culprit]
    columns = [*culprits, None]
    return pl.DataFrame(
        {
            "victim": [victims[i] for i in victim.tolist()],
            "culprit": [columns[i] for i in culprit.tolist()],
            "seconds": seconds,
            "share": seconds / blamed if blamed else seconds,
        },
        schema={"victim": pl.String, "culprit": pl.String, "seconds": pl.Float64, "share": pl.Float64},
    ).sort("seconds", "victim", "culprit", descending=[True, False, False], nulls_last=True)


def culprits_table(
    culprit_index: Ints, culprit: Ints, names: Sequence[str], caused: Floats, blamed: float, waited: float
) -> pl.DataFrame:
    """Return culprit, seconds, share, of_waited, requests: every class, and the unknown one."""
    seconds = summed(culprit_index, caused, len(names) + 1)
    requests = np.append(np.bincount(culprit, minlength=len(names)), int((culprit_index == len(names)).sum()))
    table = pl.DataFrame(
        {"culprit": [*names, None], "seconds": seconds, "requests": requests},
        schema={"culprit": pl.String, "seconds": pl.Float64, "requests": pl.Int64},
    )
    return (
        table.filter(pl.col("culprit").is_not_null() | (pl.col("seconds") > 0))
        .select(
            "culprit",
            "seconds",
            share=pl.col("seconds") / blamed if blamed else pl.lit(0.0),
            of_waited=pl.col("seconds") / waited if waited > 0 else pl.lit(0.0),
            requests="requests",
        )
        .sort("seconds", "culprit", descending=[True, False], nulls_last=True)
    )


def phases_table(
    services: Services, charged: Accounts, culprit_index: Ints, names: Sequence[str], blamed: float
) -> pl.DataFrame:
    """Return culprit, phase, seconds, share (of ``blamed``), requests, each (mean length, s), the most seconds first.

    ``culprit_index``: class of each request as a culprit; the last: unknown. Empty where all is service.
    """
    schema = {"culprit": pl.String, "phase": pl.String, "seconds": pl.Float64, "share": pl.Float64}
    schema |= {"requests": pl.Int64, "each": pl.Float64}
    pieces, count = services.pieces, len(names) + 1
    rows: list[tuple[str | None, str, float, float, int, float]] = []
    if charged.in_phase is not None and pieces.phase is not None:
        code = pieces.phase * count + pieces.of_requests(culprit_index)
        length = np.nan_to_num(pieces.end - pieces.begin)[: len(code)]
        seconds = np.array([summed(culprit_index, each, count) for each in charged.in_phase]).ravel()
        number, total = np.bincount(code, minlength=len(seconds)), np.bincount(code, length, len(seconds))
        for place in np.flatnonzero(seconds > 0):
            phase, culprit = divmod(int(place), count)
            rows.append(
                (
                    [*names, None][culprit], PHASES[phase], float(seconds[place]),
                    float(seconds[place]) / blamed if blamed else 0.0, int(number[place]),
                    float(total[place]) / max(int(number[place]), 1),
                )
            )  # fmt: skip
    return pl.DataFrame(rows, schema=schema, orient="row").sort(
        "seconds", "culprit", "phase", descending=[True, False, False], nulls_last=True
    )


def victims_table(
    victim: Ints, names: Sequence[str], is_victim: Bools, wait: Floats, charged: Accounts
) -> pl.DataFrame:
    """Return victim, requests, waited, blamed, imbalance, dispatch, and other accounts that occur: every class."""
    count = len(names)
    return (
        pl.DataFrame(
            {
                "victim": names,
                "requests": np.bincount(victim[is_victim], minlength=count),
                "waited": summed(victim, wait, count),
                "blamed": summed(victim, charged.blamed, count),
                **{account: summed(victim, seconds, count) for account, seconds in _in_order(charged)},
            },
            schema_overrides={"victim": pl.String},
        )
        .filter(pl.col("requests") > 0)
        .sort("waited", "victim", descending=[True, False])
    )


def _in_order(charged: Accounts) -> list[tuple[str, Floats]]:
    """Return the accounts, imbalance and dispatch first."""
    return sorted(charged.others.items(), key=lambda each: (each[0] not in (IMBALANCE, DISPATCH), each[0] == DISPATCH))


def over_time_table(
    cells: Floats, culprits: Sequence[str], windows: Windows, charged: Accounts, window: Ints
) -> pl.DataFrame:
    """Return begin, account, culprit, seconds, of ``cells`` (windows × culprits); ``window``: of each request."""
    begins = windows.begins
    at, culprit = np.nonzero(cells > 0)
    columns = [*culprits, None]
    rows: list[tuple[datetime, str, str | None, float]] = [
        (begins[w], BLAMED, columns[c], float(cells[w, c])) for w, c in zip(at, culprit, strict=True)
    ]
    for account, spent in charged.others.items():
        sums = summed(window, spent, windows.count)
        rows += [(begins[w], account, None, float(sums[w])) for w in np.flatnonzero(sums)]
    schema = {"begin": INSTANT, "account": pl.String(), "culprit": pl.String(), "seconds": pl.Float64()}
    return pl.DataFrame(rows, schema=schema, orient="row").sort("begin", "account", "culprit", nulls_last=True)


def costliest_requests(
    visits: Visits, services: Services, caused: Floats, names: Sequence[str | None], culprit_index: Ints
) -> list[dict[str, Any]]:
    """Return the requests that caused the most waiting, with their known fields."""
    least = pl.Series(caused).top_k(MOST_REQUESTS).to_numpy().min(initial=np.inf)
    candidates = np.flatnonzero((caused >= least) & (caused > 0))
    ranked = candidates[np.argsort(-caused[candidates], kind="stable")[:MOST_REQUESTS]]
    rows = visits.rows_at(ranked)
    return [
        {
            "request_id": rows["request_id"][row] if "request_id" in rows.columns else None,
            "uri": displayed_uri(rows["uri"][row]) if "uri" in rows.columns else None,
            "culprit": names[culprit_index[i]],
            "upstream": visits.backends[visits.backend[i]],
            "arrival": visits.base + timedelta(seconds=float(visits.arrival[i])),
            "held": float(services.end[i] - services.begin[i]),
            "seconds": float(caused[i]),
        }
        for row, i in enumerate(ranked.tolist())
    ]


def others_of(visits: Visits) -> dict[str, dict[str, int]]:
    """Return ``workers`` -> number (``values``) and ``requests`` of the backends that are not in ``workers_table``."""
    return {"workers": others} if (others := visits.others) else {}


def workers_table(visits: Visits) -> list[dict[str, Any]]:
    """Return per backend: upstream, workers, source (of that number), names (distinct worker values), pool.

    ``in_one_worker``: requests that one of its workers serves at a time. ``joined``: other addresses that lead to the
    same workers. ``held_by_body``, ``held_after``, ``held_before``: routes whose bodies, work after whose
    answers, and reading of whose requests hold a worker.
    """
    workers = visits.workers
    holds = visits.holds
    return [
        {
            "upstream": name,
            "workers": int(workers.count[i]),
            "source": workers.source[i],
            "names": int(workers.names[i]),
            "pool": visits.pools[visits.pool[i]],
            "in_one_worker": workers.in_one_worker(i),
            "joined": sorted(address for address, backend in visits.joined.items() if backend == name),
            "held_by_body": list(holds[i].body) if i in holds else [],
            "held_after": list(holds[i].after) if i in holds else [],
            "held_before": list(holds[i].read) if i in holds else [],
        }
        for i in visits.largest.tolist()
        for name in (visits.backends[i],)
    ]

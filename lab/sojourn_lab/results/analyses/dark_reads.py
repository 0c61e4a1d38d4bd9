"""Mirrored copies of requests (dark reads): their number, response time and answers, and their cost to the originals.

Originals are the requests of the case in its window; copies are joined to them by their request id.

    percent, percent_after   copies per 100 originals, before and after the kill switch; without one, `percent` covers
                             all originals
    compared, differing      copies that were answered as their originals were; those of them with another answer
    differ_share             differing / compared
    original, dark           mean, p50 and p99 of the response time, s: of the copied originals, and of the copies
    ratio                    dark p50 / original p50
    client                   p50 and mean of the response time that clients saw, s, all requests
    logged                   mean of nginx's request_time of the copied originals, s. nginx logs a request when its copy
                             has ended too: this is longer than the client's wait if the copy is slow
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from sojourn_lab.load.generator.summary import quantiles_of
from sojourn_lab.results.analyses.data import CaseData
from sojourn_lab.scenario.case import Action

RELOAD = 1.0
"""Seconds after the kill switch in which old nginx workers may still copy requests they had accepted."""


def figures(data: CaseData) -> dict[str, Any]:
    """Return the figures of the case; see the module. Without dark reads they are `client` and `percent`, 0."""
    sent = {
        record.request_id: record.sent
        for record in data.records
        if record.request_id is not None and data.since <= record.intended < data.until
    }
    took = [r.done - r.sent for r in data.records if r.done is not None and r.request_id in sent and r.error is None]
    client = quantiles_of(took)
    of_all: dict[str, Any] = {"client": {"p50": client.p50, "mean": client.mean}, "percent": 0.0}
    copies = copies_of(data.folder / "dark.jsonl", set(sent))
    if not (data.folder / "dark.jsonl").exists():
        return of_all
    before, after = shares(sent, copies, data.since, data.case.actions)
    originals = answers_in(data.folder / "answers.jsonl")
    darks = answers_in(data.folder / "dark-answers.jsonl")
    both = [each for each in copies if originals.get(each) and darks.get(each)]
    differing = sum(originals[each] != darks[each] for each in both)
    rows = data.rows
    copied = rows.filter(rows["request_id"].is_in(list(copies)))
    header = copied["queueing_delay"] + copied["service_time"]
    original, dark = quantiles_of(header.drop_nulls()), quantiles_of(copies.values())
    logged = copied["request_time"].mean()
    return of_all | {
        "percent": before,
        "percent_after": after,
        "compared": len(both),
        "differing": differing,
        "differ_share": differing / len(both) if both else None,
        "original": {"mean": original.mean, "p50": original.p50, "p99": original.p99},
        "dark": {"mean": dark.mean, "p50": dark.p50, "p99": dark.p99},
        "ratio": dark.p50 / original.p50 if dark.p50 and original.p50 else None,
        "logged": float(logged) if isinstance(logged, int | float) else None,
    }


def shares(
    sent: dict[str, float], copies: dict[str, float], since: float, actions: Sequence[Action]
) -> tuple[float | None, float | None]:
    """Return the copies per 100 originals before and after the kill switch; `sent`: request id -> unix s."""
    switch = min((since + each.at for each in actions if each.do == "mirror" and not each.percent), default=None)

    def percent(names: list[str]) -> float | None:
        return 100.0 * sum(name in copies for name in names) / len(names) if names else None

    if switch is None:
        return percent(list(sent)), None
    early = [name for name, instant in sent.items() if instant < switch]
    late = [name for name, instant in sent.items() if instant >= switch + RELOAD]
    return percent(early), percent(late)


def copies_of(log: Path, ids: set[str]) -> dict[str, float]:
    """Return request id -> response time (s) of the copies in an nginx log whose id is in `ids`."""
    records = (each for each in _lines(log) if each.get("request_id") in ids)
    return {each["request_id"]: float(each["request_time"]) for each in records}


def answers_in(log: Path) -> dict[str, str]:
    """Return request id -> status and digest of the answer; requests that no app answered are left out."""
    return {each["request_id"]: f"{each['status']} {each['answer']}" for each in _lines(log) if each.get("answer")}


def _lines(path: Path) -> list[dict[str, Any]]:
    return msgspec.json.Decoder(dict[str, Any]).decode_lines(path.read_bytes()) if path.exists() else []

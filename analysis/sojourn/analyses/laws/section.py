"""The section of ``laws``."""

from __future__ import annotations

from functools import partial

from sojourn.analyses.laws import run
from sojourn.analyses.laws.analysis import NAMES, UNCERTAIN, Laws, StationLaws
from sojourn.analyses.laws.charts import wait_against_utilisation
from sojourn.analyses.question import ReportContext
from sojourn.model.formatting import duration, milliseconds, percent, printable
from sojourn.present.display import lay_out
from sojourn.present.section import Picture, Section, Table

PICTURES = 4


@lay_out.register(Laws)
def laws_section(laws: Laws) -> Section:
    """Return the section of ``laws``: the predictions per upstream and backend, and the law that applies."""
    return Section(
        key="laws",
        title="Queueing laws and the measured wait",
        sentence=" ".join(station.sentence for station in laws.stations[:2]),
        measures=(
            "Wait: from the instant nginx turned to the backend to the app's start. Service: the time a worker was "
            "held. Utilisation: λS/c. c_a², c_s²: variance / mean² of the times between arrivals and of the service "
            "times."
        ),
        failures=laws.failures,
        tables=(_stations(laws), _predictions(laws)),
        pictures=tuple(_picture(station, number) for number, station in enumerate(laws.stations[:PICTURES])),
        notes=tuple(laws.notes),
    )


def _stations(result: Laws) -> Table:
    rows = []
    for laws in result.stations:
        s = laws.station
        rows.append(
            (laws.label, f"{s.arrival_rate:.3g}", milliseconds(s.mean_service), f"{s.workers}",
            ("≥ " if laws.lower_bound else "") + f"{s.utilisation:.2f}",
             f"{s.ca2:.2f}", f"{s.cs2:.2f}", "–" if s.dispersion is None else f"{s.dispersion:.2f}")
        )  # fmt: skip
    sources = ", ".join(dict.fromkeys(laws.station.workers_source for laws in result.stations))
    headings = ("load", "λ/s", "S ms", "c", "util.", "c_a²", "c_s²", "disp.")
    return Table(headings, tuple(rows), f"disp.: index of dispersion of arrivals. Workers: {sources}")


def _predictions(result: Laws) -> Table:
    rows = []
    for laws in result.stations:
        s = laws.station
        error = f"± {milliseconds(s.wait_error)}" if s.wait_error < float("inf") else ""
        rows.append((laws.label, f"as {laws.wait_source}", milliseconds(s.mean_wait), error))
        for prediction in laws.predictions:
            applies = "applies" if laws.doubt > UNCERTAIN else "best match"
            mark = applies if prediction.law == laws.believe else ""
            error = laws.off_by(prediction)
            value = milliseconds(prediction.mean_wait)
            # The sentence states the trend once.
            reason = "not stationary" if (prediction.reason or "").startswith("not stationary") else prediction.reason
            rows.append((f"  {NAMES[prediction.law]}", reason or mark, value, error))
    return Table(("mean wait", "", "ms", "off by"), tuple(rows), text_columns=2, shown=24)


def _picture(laws: StationLaws, number: int) -> Picture:
    return Picture(
        f"laws-{number}",
        f"Wait against utilisation, {printable(laws.label, 80)}",
        f"Points are windows, lines the predictions of the laws with the measured S, c, c_a² and c_s². Utilisation: "
        f"{percent(laws.station.utilisation)}.",
        partial(wait_against_utilisation, laws),
        reading(laws),
    )


def reading(laws: StationLaws) -> str:
    """Describe the windows and curves of a station in one sentence."""
    station = laws.station
    of = percent(station.utilisation)
    measured = f"The {laws.wait_source} mean wait is {duration(station.mean_wait)} at a utilisation of {of}"
    windows = station.windows
    if not windows.is_empty():
        top = windows.sort("utilisation", descending=True).row(0, named=True)
        measured += (
            f", {duration(top['wait'])} in the window with the most offered load ({percent(top['utilisation'])} of "
            "the workers' capacity)"
        )
    law = laws.believed
    if law is None:
        return f"{measured}; no law applies."
    return f"{measured}; {NAMES[law.law]} predicts {duration(law.mean_wait)} for the whole."


def report_section(context: ReportContext) -> Section:
    """Return the section of a report."""
    return laws_section(run.laws(context.requests, workers=context.workers))

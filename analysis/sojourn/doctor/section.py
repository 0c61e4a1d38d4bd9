"""Lay out a diagnosis: one row per finding, with the lines that mend it."""

from __future__ import annotations

from sojourn.doctor.display import headline
from sojourn.doctor.findings import Diagnosis
from sojourn.present.display import lay_out
from sojourn.present.section import Section, Table

MEASURES = "Worst first; the reference page describes each code."


@lay_out.register(Diagnosis)
def diagnosis_section(diagnosis: Diagnosis) -> Section:
    """Return the section of ``doctor``."""
    rows = tuple(
        (each.severity, each.code, each.where, each.what, " ".join(each.fix.split())) for each in diagnosis.findings
    )
    table = Table(("severity", "code", "where", "what", "line that mends it"), rows, text_columns=5, shown=25)
    return Section(
        key="doctor",
        title="What is missing",
        sentence=headline(diagnosis),
        measures=MEASURES if rows else "",
        tables=(table,) if rows else (),
        notes=(*diagnosis.unseen, *diagnosis.checked),
    )

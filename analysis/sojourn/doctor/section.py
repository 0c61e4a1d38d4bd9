"""What the doctor says, laid out for people: a row a finding, with the lines that mend it."""

from __future__ import annotations

from sojourn.doctor.display import headline
from sojourn.doctor.findings import Diagnosis
from sojourn.present.display import lay_out
from sojourn.present.section import Section, Table

MEASURES = "Worst first; the page of the documentation that each code leads to says more."


@lay_out.register(Diagnosis)
def diagnosis_section(found: Diagnosis) -> Section:
    """The section of ``doctor``."""
    rows = tuple(
        (each.severity, each.code, each.where, each.what, " ".join(each.fix.split())) for each in found.findings
    )
    table = Table(("severity", "code", "where", "what", "line that mends it"), rows, text_columns=5, shown=25)
    return Section(
        key="doctor",
        title="What is missing",
        sentence=headline(found),
        measures=MEASURES if rows else "",
        tables=(table,) if rows else (),
        notes=(*found.unseen, *found.checked),
    )

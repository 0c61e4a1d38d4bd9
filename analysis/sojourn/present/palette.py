"""The colours of service time and queueing delay, from Okabe and Ito (2008): distinct for all readers."""

from __future__ import annotations

from dataclasses import dataclass

SERVICE = "#0072B2"
QUEUEING = "#D55E00"
OTHER = "#999999"
RESPONSE = "#808080"
UNKNOWN_TIME = "#CC79A7"

PARTS = {"queueing delay": QUEUEING, "service time": SERVICE, "everything else": OTHER}


@dataclass(frozen=True)
class Theme:
    """Colours of the page. Text on the background has a contrast of at least 7 : 1 (WCAG 2.2, AAA)."""

    background: str
    text: str
    line: str
    grid: str


THEMES = {
    "light": Theme("#ffffff", "#222222", "#767676", "#e2e2e2"),
    "dark": Theme("#15181c", "#e8e8e8", "#8c929a", "#33383f"),
    # In a page a chart has the colour of the surrounding text, in either theme.
    "page": Theme("transparent", "currentColor", "#808080", "#80808040"),
}

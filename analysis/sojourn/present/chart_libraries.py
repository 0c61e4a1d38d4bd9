"""Altair and vl-convert, which the extra ``charts`` brings: imported when a chart is drawn, not before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.model.extras import LateModule

if TYPE_CHECKING:
    import altair as alt
    import vl_convert
else:
    alt = LateModule("altair", "a chart")
    vl_convert = LateModule("vl_convert", "a chart")

__all__ = ["alt", "vl_convert"]

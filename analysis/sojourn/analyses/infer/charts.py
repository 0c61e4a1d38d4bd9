"""Draw the inferred service time against the depth of the queue."""

from __future__ import annotations

import polars as pl

from sojourn.present.chart_libraries import alt
from sojourn.present.chart_sizes import HEIGHT, WIDTH
from sojourn.present.palette import SERVICE


def service_against_depth(service: pl.DataFrame) -> alt.LayerChart:
    """Draw the mean inferred service time by the requests in the system at an arrival, with its 95 % interval.

    Args:
        service: columns of ``sojourn.analyses.infer.analysis.SERVICE_SCHEMA``, of one backend.
    """
    between = pl.when(pl.col("low") == pl.col("high")).then(pl.col("low").cast(pl.String))
    table = service.with_columns(
        depth=between.otherwise(pl.format("{}–{}", "low", "high")),
        service=pl.col("service").round_sig_figs(6),
        from_=(pl.col("service") - 1.96 * pl.col("error")).round_sig_figs(6),
        to=(pl.col("service") + 1.96 * pl.col("error")).round_sig_figs(6),
    )
    base = alt.Chart(alt.InlineData(values=table.drop("upstream").to_dicts())).encode(
        x=alt.X(
            "depth:O", title="requests in the system on arrival", sort=table["depth"].to_list(),
            axis=alt.Axis(labelAngle=0, labelOverlap="greedy", labelSeparation=4),
        ),
        tooltip=[
            alt.Tooltip("depth:O"),
            alt.Tooltip("requests:Q", format=","),
            alt.Tooltip("service:Q", title="mean service (s)", format=".4~f"),
        ],
    )  # fmt: skip
    interval = base.mark_rule(color=SERVICE).encode(
        y=alt.Y("from_:Q", title="inferred service time (s)", scale=alt.Scale(zero=True)), y2=alt.Y2("to:Q")
    )
    points = base.mark_point(color=SERVICE, filled=True, size=60).encode(y=alt.Y("service:Q"))
    return (interval + points).properties(width=WIDTH, height=HEIGHT)

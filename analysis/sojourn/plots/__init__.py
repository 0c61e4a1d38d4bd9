"""Every chart as a function that returns an Altair chart, and as a file.

>>> import sojourn
>>> from sojourn import plots
>>> result = sojourn.split("docs/examples/shop.jsonl.gz")
>>> chart = plots.ccdf(result)                       # a notebook shows it
>>> plots.save(chart, "ccdf.svg")                    # doctest: +SKIP
>>> print(plots.picture(result, "ccdf").reading)
One request in a hundred waited 3.2 s or more, half waited 1.07 ms or less; one in a hundred was served for 1.7 s or more.
"""  # noqa: E501 - a doctest prints in one line

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sojourn.plots.kinds import KINDS, OF, Kind

if TYPE_CHECKING:
    from sojourn.plots.charts import (
        blame,
        blame_over_time,
        capacity,
        ccdf,
        clock,
        depth,
        depth_on_arrival,
        distribution,
        flow,
        goodput,
        heatmap,
        hexbin,
        over_time,
        percentiles,
        ridgeline,
        sequence,
        split_by,
        tail,
        throughput,
        utilisation,
        whatif,
        whatif_responses,
        workers,
    )
    from sojourn.plots.files import save
    from sojourn.plots.pictures import picture

__all__ = [
    "KINDS", "OF", "Kind", "blame", "blame_over_time", "capacity", "ccdf", "clock", "depth", "depth_on_arrival",
    "distribution", "flow", "goodput", "heatmap", "hexbin", "over_time", "percentiles", "picture", "ridgeline", "save",
    "sequence", "split_by", "tail", "throughput", "utilisation", "whatif", "whatif_responses", "workers",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    # Loaded on first use: the command line knows the kinds without starting Altair and Polars.
    homes = {"save": "sojourn.plots.files", "picture": "sojourn.plots.pictures"}
    if name in homes or name in KINDS:
        from importlib import import_module  # noqa: PLC0415

        return getattr(import_module(homes.get(name, "sojourn.plots.charts")), name)
    raise AttributeError(f"module 'sojourn.plots' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

"""Which section a result is laid out in: the one list of them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from sojourn.sections.section import Section

# By the name of its class, and loaded when one is asked for: numba and scipy take their time.
_SECTIONS = {
    "BlameResult": "blame",
    "Capacity": "capacity",
    "ClockResult": "clock",
    "Comparison": "compare",
    "DepthResult": "depth",
    "Diagnosis": "diagnosis",
    "GoodputResult": "goodput",
    "KernelResult": "kernel",
    "Laws": "laws",
    "SimulationResult": "simulate",
    "SplitResult": "split_summary",
    "Tiers": "tiers",
    "WhatIfResult": "whatif",
    "WireResult": "wire",
}
_FUNCTIONS = {"split_summary": "split_section"}


def section_of(result: object) -> Section:
    """The section of a result of any analysis.

    Raises:
        TypeError: it is the result of none.
    """
    module = _SECTIONS.get(type(result).__name__)
    if module is None:
        raise TypeError(f"{type(result).__name__} is not the result of an analysis")
    found = import_module(f"sojourn.sections.{module}")
    make: Callable[[object], Section] = getattr(found, _FUNCTIONS.get(module, f"{module}_section"))
    return make(result)

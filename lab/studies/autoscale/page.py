"""The page on autoscaling, in Markdown: what each signal costs, its parameters, and what a run has shown."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from functools import partial

from sojourn.model.formatting import formatted, milliseconds

from studies.autoscale.findings import findings, name_of, share_text
from studies.autoscale.parameters import parameters
from studies.autoscale.pictures import front_name, has_front
from studies.autoscale.recorded import FLOOR, Cell, Figure, Measurement
from studies.autoscale.simulated import SimulatedSetting
from studies.page_output import versions_text

PROGRAMS = ("gunicorn", "nginx", "python")

HEAD = """# Autoscaling: which signal says how many workers an app needs

<!-- Written by PYTHONPATH=lab python -m studies.autoscale RUN...: run that again. -->

[The lab's study](../../lab/README.md#studies) `autoscale` offers the same requests to gunicorn (sync
workers) behind nginx, once for each signal. Every {period} s an autoscaler looks at one signal and sets the
number of workers, from {minimum} to {maximum}, with SIGTTIN and SIGTTOU. Service times are exponential with a
mean of {service} ms; the app sleeps, as an app does that waits for a database. The objective: {share} of the
requests wait at most {threshold} ms for a worker. A request without an answer misses it.

The yardstick is the fewest workers with which the objective holds in each window of {window} s, with all arrivals
and service times known beforehand. No autoscaler can reach it: it learns of a rise from the requests that came
with it.
"""

LOAD = {
    "diurnal": "A day in {duration} s: the rate rises from {low} to {high} requests a second, and falls again.",
    "spiky": "Steps: {steps}.",
    "slow_start": "The spiky load, and an app that takes {loading} s to load: a worker is ready so much later.",
    "second": "The spiky load, and beside it {beside} requests a second to a second service, which the same nginx"
    " answers by itself and logs.",
}

TABLE = """
| signal | within the objective | worker-seconds | of the yardstick's | in violation | overshoot | changes | reversals | no answer |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""  # noqa: E501 - a row of a table is one line

COLUMNS = """
*In violation*: time in windows whose requests did not meet the objective. *Overshoot*: the most
workers above the yardstick at any time. *Changes* of the number that was set, *reversals* of their direction. *No
answer*: requests that clients gave up on after {timeout} s, or that failed. Where a case was repeated with other
requests the figures are means, and in brackets is the range.
"""

PICTURE = """
![For each signal the workers over the offered load, and the queueing delay](../images/autoscale-{load}.svg)
"""

LEGEND = """
Left: the workers that were set (blue), the yardstick (grey line), and the offered load in busy workers (area).
Right: the 95th percentile of the queueing delay in windows of {window} s, and the threshold (dashed); at the
upper end requests got no answer.
"""

FRONT = """
![For each signal the requests within the objective against the cost, with each of its settings]({measured})
{simulated}
A line per signal and hold, a point per setting, the default filled. Bars are the range of the repetitions, or the
95 % intervals of the simulated means. Grey: fixed numbers of workers, replayed.
Settings with less than {floor} of the requests within the objective are left out.

{table}"""

SIMULATED_FRONT = """
Simulated, with the same {draws} loads for each setting:

![The same of the simulated loop, with intervals]({picture})
"""

SETTINGS_TABLE = """| signal | hold | setting | within the objective | of the yardstick's worker-seconds | runs | within, simulated | worker-seconds, simulated |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""  # noqa: E501 - a row of a table is one line

VOIDS = """
**Void** are cases in which the generator was late or other programs took processor time
([why](../../lab/README.md#void-runs)); a few milliseconds of lateness hardly change the table, but the figures are
less certain:

"""

FINDINGS = """
## What the runs show

Beside each signal: the requests within the objective, and the worker-seconds as a share of the yardstick's.

{items}
"""

TAIL = """
To measure it again, in about two hours; or in parts (`--case`), and with other requests (`--seed`, `--set repeats=3`):

    PYTHONPATH=lab python -m studies.autoscale.measure --out RUN
    PYTHONPATH=lab python -m studies.autoscale RUN... --pictures docs/images --out docs/reference/autoscale.md

{versions}
"""


def page(measurement: Measurement, simulated: Mapping[str, Sequence[SimulatedSetting]]) -> str:
    """Return the page with the figures of the runs, and the simulated settings of each load."""
    scenario = measurement.run.scenario
    one = next(cell.first for cells in measurement.cases.values() for cell in cells.values())
    settings = one.settings
    head = HEAD.format(
        period=f"{settings.period:g}",
        minimum=settings.minimum,
        maximum=settings.maximum,
        service=milliseconds(one.case.mean_service_time),
        share=f"{settings.share:.0%}",
        threshold=milliseconds(settings.threshold),
        window=f"{one.windows[0]['seconds']:g}",
    )
    loads = "".join(
        _load_section(
            measurement, simulated.get(load, ()), load, scenario.duration, None if number else scenario.timeout
        )
        for number, load in enumerate(measurement.cases)
    )
    items = "\n".join(f"- {text}" for text in findings(measurement, simulated))
    tail = TAIL.format(versions=versions_text(measurement.run.versions, PROGRAMS))
    return filled(
        head + loads + FINDINGS.format(items=items) + _voids(measurement) + parameters(measurement, one) + tail
    )


def _load_section(
    measurement: Measurement,
    simulated: Sequence[SimulatedSetting],
    load: str,
    duration: float,
    timeout: float | None,
) -> str:
    """Return what was measured under a load; `timeout`: of the clients, only where table and picture are explained."""
    cells = measurement.cases[load]
    window = f"{next(iter(cells.values())).first.windows[0]['seconds']:g}"
    defaults = {name: cell for name, cell in cells.items() if not cell.setting}
    columns = "" if timeout is None else COLUMNS.format(timeout=f"{timeout:g}")
    legend = "" if timeout is None else LEGEND.format(window=window)
    return (
        f"\n## {load.replace('_', ' ').capitalize()} load\n\n{_load(load, cells, duration)}\n{TABLE}"
        f"{''.join(_row(cell) for cell in defaults.values())}"
        f"{columns}{PICTURE.format(load=load)}{legend}{_front(measurement, simulated, load)}"
    )


def _front(measurement: Measurement, simulated: Sequence[SimulatedSetting], load: str) -> str:
    """Return the front of attainment and cost; empty under a load without lines of settings."""
    lines = measurement.lines(load)
    if not has_front(lines):
        return ""
    intervals = {each.cell.first.case.name: _intervals(each) for each in simulated}
    rows = [
        f"| `{cell.signal}` | {cell.hold:g} s | {cell.value:g} | {share_text(cell.within, '.1%')} |"
        f" {share_text(cell.cost)} | {len(cell.repetitions)} | {intervals.get(cell.first.case.name, '– | –')} |\n"
        for line in lines.values()
        for cell in line
    ]
    drawn = ""
    if simulated:
        picture = f"../images/{front_name(load, 'simulated')}"
        drawn = SIMULATED_FRONT.format(draws=len(simulated[0].within), picture=picture)
    return FRONT.format(
        measured=f"../images/{front_name(load)}",
        simulated=drawn,
        floor=f"{FLOOR:.0%}",
        table=SETTINGS_TABLE + "".join(rows),
    )


def _intervals(simulated: SimulatedSetting) -> str:
    point = simulated.point
    return f"{_around(point.within, '.1%')} | {_around(point.cost, '.0%')}"


def _around(figure: Figure, spec: str) -> str:
    half = formatted(100.0 * (figure.high - figure.mean), ".1f")
    return f"{formatted(figure.mean, spec)} ± {half}"


def _voids(measurement: Measurement) -> str:
    """Return why cases are void; empty if none is."""
    reasons = [
        f"- {load}, {name_of(cell)}: {reason}.\n"
        for load, cells in measurement.cases.items()
        for cell in cells.values()
        for reason in cell.void
    ]
    return VOIDS + "".join(reasons) if reasons else ""


def filled(text: str, width: int = 120) -> str:
    """Return Markdown with its paragraphs and lists filled to a width, and all else unchanged."""
    return "\n\n".join(_filled(block, width) for block in text.split("\n\n"))


def _filled(block: str, width: int) -> str:
    if block.lstrip("\n").startswith(("|", "#", "<", "!", "    ")):
        return block
    items = re.split(r"\n(?=- )", block.strip("\n"))
    fill = partial(textwrap.fill, width=width, break_long_words=False, break_on_hyphens=False)
    text = "\n".join(
        fill(" ".join(item.split()), subsequent_indent="  " if item.startswith("- ") else "") for item in items
    )
    # Newlines around a block separate it from its neighbours.
    return block[: len(block) - len(block.lstrip("\n"))] + text + block[len(block.rstrip("\n")) :]


def _load(load: str, cells: Mapping[str, Cell], duration: float) -> str:
    case = next(iter(cells.values())).first.case
    beside = case.autoscale.beside if case.autoscale is not None else None
    low, high = getattr(case.load, "low", 0.0), getattr(case.load, "high", 0.0)
    rates, at = getattr(case.load, "rates", [0.0]), getattr(case.load, "at", [])
    steps = [f"{rates[0]:g} requests a second"]
    steps += [f"{rate:g} from {instant:g} s" for rate, instant in zip(rates[1:], at, strict=True) if instant < duration]
    return LOAD.get(load, "{steps}").format(
        duration=f"{duration:g}",
        low=f"{low:g}",
        high=f"{high:g}",
        steps=", ".join(steps),
        loading=f"{case.topology.loading or 0.0:g}",
        beside=f"{beside or 0.0:g}",
    )


def _row(cell: Cell) -> str:
    def mean(*path: str, spec: str = ",.0f") -> str:
        return formatted(cell.figure(*path).mean, spec)

    cells = [
        f"`{cell.signal}`" + (" (void)" if cell.void else ""),
        share_text(cell.within, ".1%"),
        mean("worker_seconds"),
        share_text(cell.cost),
        f"{mean('violation', 'seconds')} s",
        *(mean(name) for name in ("overshoot", "changes", "reversals", "unanswered")),
    ]
    return "| " + " | ".join(cells) + " |\n"

"""A comparison of two runs as sentences and rows of text."""

from __future__ import annotations

from typing import Any

from sojourn.model.formatting import counted, formatted, milliseconds, percent

from sojourn_lab.results.findings import FAILED, PASSED
from sojourn_lab.results.metric_units import ABSENT
from sojourn_lab.results.rows import Rows
from sojourn_lab.results.runs.archive import REQUEST_FIGURES
from sojourn_lab.results.runs.comparison import FigureChange, RunComparison
from sojourn_lab.results.runs.setup import Difference

NAMES = {
    "split.response_time.mean": "mean response",
    "split.response_time.p50": "p50 response",
    "split.response_time.p99": "p99 response",
    "split.components.queueing_delay.mean": "mean queueing",
    "split.components.service_time.mean": "mean service",
    "client.achieved_rate": "requests/s",
    "client.failed": "failed requests",
    "client.useful.share": "share served",
}
PARTS = ("split.components.queueing_delay.mean", "split.components.service_time.mean")
"""Components of the response time: reported in preference to the response time itself."""

MOST_SETTINGS = 3
LONGEST = 40


def verdict(compared: RunComparison) -> str:
    """Return one sentence with the changed settings and the most important change of a figure."""
    moved = [each for each in compared.setup if each.kind in ("scenario", "run")]
    settings = [_setting_change(each) for each in moved[:MOST_SETTINGS]]
    if len(moved) > MOST_SETTINGS:
        settings.append(f"{counted(len(moved) - MOST_SETTINGS, 'more setting was', 'more settings were')} changed")
    versions = [each for each in compared.setup if each.kind == "versions"]
    if not settings:
        settings.append(f"only versions changed ({len(versions)})" if versions else "no setting was changed")
    if compared.different:
        settings = [f"the scenario changed from {compared.different[0]} to {compared.different[1]}"]
    between = f"Between {compared.a.label} and {compared.b.label} {', '.join(settings)}"
    return f"{between}; {_outcome(compared)}."


def _outcome(compared: RunComparison) -> str:
    if not compared.figures:
        return "the runs have no case in common"
    moved = [each for each in compared.figures if each.beyond_noise]
    for paths in (PARTS, REQUEST_FIGURES):
        timed = [each for each in moved if each.path in paths]
        if timed:
            return _change_text(max(timed, key=lambda each: abs(each.after - each.before)), compared)
    if moved:
        return _change_text(max(moved, key=lambda each: abs(each.change or 0.0)), compared)
    judged = any(each.beyond_noise is not None for each in compared.figures)
    return "no figure changed beyond noise" if judged else "no figure has an interval, so noise cannot be excluded"


def _change_text(figure: FigureChange, compared: RunComparison) -> str:
    alike = sum(each.path == figure.path and bool(each.beyond_noise) for each in compared.figures)
    where = "" if len(compared.cases) == 1 else f" in {figure.case}"
    most = f", the most of {alike} cases in which it changed" if alike > 1 else ""
    way = "rose" if figure.after > figure.before else "fell"
    return f"{figure_name(figure.path)} {way} by {percent(abs(figure.change or 0.0))}{_interval(figure)}{where}{most}"


def _interval(figure: FigureChange) -> str:
    if figure.low is None or figure.high is None:
        return ""
    return f" ({signed_percent(figure.low)} to {signed_percent(figure.high)})"


def figure_name(path: str) -> str:
    """Return the short name of a figure."""
    return NAMES.get(path, path.removeprefix("split.").removeprefix("components.").removeprefix("figures."))


def signed_percent(share: float | None) -> str:
    """Return a change in per cent with its sign, with one decimal below ten; a dash for None."""
    if share is None:
        return ABSENT
    value = share * 100.0
    text = f"{formatted(value, '+.0f' if abs(value) >= 9.95 or value == 0.0 else '+.1f')} %"
    return text.replace("-", "\N{MINUS SIGN}")


def setting_text(value: Any) -> str:
    """Return a setting in at most LONGEST characters."""
    if isinstance(value, list) and len(value) > 6:
        return f"{counted(len(value), 'value')}"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _setting_change(difference: Difference) -> str:
    return f"{difference.path} went {setting_text(difference.before)} → {setting_text(difference.after)}"


def setup_rows(compared: RunComparison, *, every: bool) -> Rows:
    """Return the settings that differ; with `every`, the command-line changes too, which the settings already show."""
    differences = [each for each in compared.setup if every or each.kind != "changes"]
    return ["set-up", "before", "after"], [
        [each.path, setting_text(each.before), setting_text(each.after)] for each in differences
    ]


def figure_rows(compared: RunComparison, *, every: bool) -> Rows:
    """Return the figures of the cases, in ms if they are times of requests; without `every`, none that is 0 in both."""
    rows = []
    last = ""
    for each in compared.figures:
        if not every and each.before == each.after == 0.0:
            continue
        timed = each.path in REQUEST_FIGURES
        before, after = (milliseconds(value) if timed else _text(value) for value in (each.before, each.after))
        beyond = ABSENT if each.beyond_noise is None else "yes" if each.beyond_noise else "no"
        ends = ABSENT if each.low is None or each.high is None else f"{each.low + 1.0:.3g} to {each.high + 1.0:.3g}"
        rows.append(
            [
                each.case if each.case != last else "",
                figure_name(each.path),
                before,
                after,
                ABSENT if each.change is None else f"{each.change + 1.0:.3g}",
                ends,
                beyond,
            ]
        )
        last = each.case
    return ["case", "figure", "before", "after", "ratio", "95 % interval", "changed"], rows


def _text(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.4g}"


def flip_rows(compared: RunComparison) -> Rows:
    """Return the criteria that only one run met."""
    verdicts = {True: PASSED, False: FAILED}
    rows = [[each.name, each.case, verdicts[each.before], verdicts[each.after]] for each in compared.flips]
    return ["criterion", "case", "before", "after"], rows


def machinery_sentence(compared: RunComparison) -> str:
    """Return the times to start and to stop the servers of both runs."""
    sides = compared.a.raw, compared.b.raw
    up, down = ([_text(side.get(key)) for side in sides] for key in ("spin_up", "tear_down"))
    return f"up in {up[0]} s, then {up[1]} s; down in {down[0]} s, then {down[1]} s"

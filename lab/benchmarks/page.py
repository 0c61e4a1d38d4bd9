"""The results of a benchmark as a Markdown page."""

from __future__ import annotations

from typing import Any

INTRODUCTION = """\
# What it costs

`make bench` measures all of this again, in about an hour; `make bench ONLY=split,startup` a part of it. Ours and the
peer's run one right after the other, in turns, so that a slow minute of the machine hits both: only the ratio of the
two means something elsewhere. *from – to* are the smallest and the largest ratio of a round; a ratio with × says how
many times faster (or more) than the peer we are, another what part of the peer's. A slope is that of the logarithm of
the cost over the logarithm of the size: 1 is linear.

"""


def published(results: dict[str, Any]) -> str:
    """Return the page of the documentation."""
    return INTRODUCTION + page(results)


def page(results: dict[str, Any]) -> str:
    """Return the tables of ratios and slopes, with the machine and the versions."""
    lines = [f"On {_machine(results['machine'])}."]
    versions = dict(results["versions"])
    for suite in results["suites"].values():
        size = "" if suite["scale"] == 1.0 else f", at {suite['scale']:g} of the full size"
        place = "" if suite["machine"] == results["machine"] else f", on {_machine(suite['machine'])}"
        lines += ["", f"## {suite['title']}", "", f"Medians of {suite['repeats']} rounds{size}{place}.", ""]
        if suite["rows"]:
            lines += [
                "| what | ours | peer | theirs | ratio | from – to | goal | memory |",
                "| --- | ---: | --- | ---: | ---: | ---: | --- | ---: |",
                *map(_row, suite["rows"]),
            ]
            notes = [f"- {row['what']}: {row['note']}" for row in suite["rows"] if row["note"]]
            lines += ["", *notes] if notes else []
        if suite["slopes"]:
            lines += [
                "",
                "| cost of | grows with | from – to | slope | goal |",
                "| --- | --- | ---: | ---: | ---: |",
                *map(_slope, suite["slopes"]),
            ]
            notes = [
                f"- {each['what']} over {each['against']}: {each['note']}" for each in suite["slopes"] if each["note"]
            ]
            lines += ["", *notes] if notes else []
        if suite["skipped"]:
            lines += ["", *(f"- Not measured: {reason}" for reason in suite["skipped"])]
        versions |= suite["versions"]
    lines += ["", "Versions: " + ", ".join(f"{name} {value}" for name, value in sorted(versions.items())) + "."]
    return "\n".join(lines) + "\n"


def _machine(machine: dict[str, Any]) -> str:
    return f"{machine['cores']} cores, {machine['memory_gb']} GB, {machine['system']}"


def _row(row: dict[str, Any]) -> str:
    ratio = "" if row["ratio"] is None else f"{_number(row['ratio'])}{' ×' if row['times'] else ''}"
    spread = "" if row["low"] is None else f"{_number(row['low'])} – {_number(row['high'])}"
    theirs = "" if row["theirs"] is None else f"{_number(row['theirs'])} {row['unit']}"
    memory = "" if row["peak_mb"] is None else f"{row['peak_mb']:,.0f} MB"
    return (
        f"| {row['what']} | {_number(row['ours'])} {row['unit']} | {row['peer']} | {theirs} | {ratio} | {spread} "
        f"| {_goal(row)} | {memory} |"
    )


def _goal(row: dict[str, Any]) -> str:
    if row.get("goal") is None:
        return ""
    return (
        f"{'≥' if row.get('at') == 'least' else '≤'} {_number(row['goal'])}: {'met' if row['met'] else '**not met**'}"
    )


def _slope(each: dict[str, Any]) -> str:
    sizes = f"{each['sizes'][0]:,.0f} – {each['sizes'][-1]:,.0f}"
    return f"| {each['what']} | {each['against']} | {sizes} | {each['slope']:.2f} | {_goal(each)} |"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"

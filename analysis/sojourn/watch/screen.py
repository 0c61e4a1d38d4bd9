"""Lay out a view in the available lines and columns: the most important first, the table gets the rest."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from sojourn.model.formatting import counted, duration, printable, unbroken
from sojourn.watch.cells import (
    BAD,
    BOLD,
    DIM,
    GOOD,
    LONG,
    QUEUEING,
    REVERSE,
    SECONDS,
    WIDTH,
    Column,
    Line,
    Part,
    columns_in,
    headings_above,
    name_cell,
    name_width,
    number,
    plain_text,
    rate_text,
    row_of,
    share_text,
    sort_words,
    sorted_rows,
    sparkline,
    time_text,
)
from sojourn.watch.figures import Figures
from sojourn.watch.queues import WAITING
from sojourn.watch.view import View, short_name

LABELS = {"now": "now, 10 s", "1m": "1 min", "10m": "10 min"}
STYLES = {"healthy": GOOD, "queueing": BAD, "retries": BAD}
SILENT = 5.0  # s
DAY = 86_400.0  # s
SMALL = 6  # lines; with fewer below the windows, the table has no title
# Columns of the backends: the one-line heading, and the two-line heading.
BACKENDS = (
    ("req/s", "", "req/s"), ("q mean", "queueing", "mean"), ("q p99", "queueing", "p99"), ("busy", "workers", "busy"),
    ("of", "workers", "count"), ("depth", "in queue", "mean"), ("most", "in queue", "most"),
    ("last", "in queue", "last"),
)  # fmt: skip
MOST_BACKENDS = 4
MOST_CULPRITS = 4
LEAST_SHARE = 0.001
LOOKED_FREE = "workers looked free"
FREE = {
    "imbalance": "imbalance (another backend was free)",
    "dispatch": "dispatch (its backend was free)",
    "bound": "bound (another process was free)",
    "limit": "limit (in front of free workers)",
    "absent": "absent workers",
    "load_not_in_the_log": "load that is not in this log",
    LOOKED_FREE: "workers looked free (busy is at least what is shown)",
}


@dataclass(frozen=True)
class Looks:
    """Display options of a view.

    Attributes:
        window: of the table.
        sort: one of ``SORTS``.
        scroll: rows of the table to skip.
        every: s between two redraws.
        paused: the display is paused.
        ascii_only: the terminal has no other characters.
        live: show the redraw interval.
    """

    window: str = "1m"
    sort: str = SECONDS
    scroll: int = 0
    every: float = 1.0
    paused: bool = False
    ascii_only: bool = False
    live: bool = True


def screen(view: View, looks: Looks, width: int, height: int | None = None) -> list[Line]:
    """Return the lines of a view, none wider than ``width``, at most ``height`` (None: all)."""
    lines = _lines(view, looks, width, height)
    return [_fitted(line, width, ascii_only=looks.ascii_only) for line in lines[:height]]


def text_of(lines: list[Line]) -> str:
    """Return lines without their styles."""
    return "".join("".join(part.text for part in line).rstrip() + "\n" for line in lines)


def _lines(view: View, looks: Looks, width: int, height: int | None) -> list[Line]:
    columns = columns_in(width)
    room = name_width(width, len(columns))
    top = [_header(view, looks), *_verdict(view, width, 2 if height is None or height >= 16 else 1)]
    top += _headings(columns, room, looks.sort, 2 if height is None or height >= 16 else 1)
    top += [_window(name, figures, columns, room) for name, figures in view.windows.items()]
    groups = _groups(view, looks, columns, room)
    # The blocks below the table, the most important first, each with its position.
    below: list[tuple[int, list[Line]]] = [
        (3, [_rejects(view)]),
        (1, _culprits(view, width)),
        (2, _history(view, looks, room, width)),
        (0, _backends(view, room, width, 2 if height is None or height >= 24 else 1)),
        (4, [(Part(line, BAD),) for note in view.notes for line in _wrapped(note, width)[:2]]),
    ]
    left = (height or 1_000) - len(top)
    if left < SMALL:
        groups = groups[1:]
    least = min(len(groups), 2 if left < SMALL else 3)  # of the table
    chosen: list[tuple[int, list[Line]]] = []
    for order, lines in below:
        if lines and len(lines) <= left - least:
            chosen.append((order, lines))
            left -= len(lines)
    bottom = [line for _, lines in sorted(chosen, key=lambda entry: entry[0]) for line in lines]
    apart: list[Line] = [()] if left >= len(groups) + 2 else []
    return [*top, *apart, *groups[: max(left, 0)], *apart, *bottom]


def _header(view: View, looks: Looks) -> Line:
    names = ", ".join(map(short_name, view.names[:2])) + ("…" if len(view.names) > 2 else "")
    day = f"{view.at:%Y-%m-%d} " if view.age is not None and view.age > DAY else ""
    parts = [Part("sojourn watch", BOLD), Part(f"  {day}{view.at:%H:%M:%S} UTC")]
    if looks.paused:
        parts.append(Part("  PAUSED", REVERSE))
    if view.last is None:
        parts.append(Part("  no record yet", BAD))
    elif view.late is not None:
        how = "behind" if view.late > 0 else "ahead"
        parts.append(Part(f"  log {duration(abs(view.late))} {how}", BAD))
    elif view.age is not None and view.age > max(SILENT, 3 * looks.every):
        parts.append(Part(f"  last record {duration(view.age)} ago", BAD))
    if view.where:
        parts.append(Part(f"  only {printable(view.where, 30)}", BOLD, ("app.filter", ())))
    every = f"  every {looks.every:g} s" if looks.live else ""
    return (*parts, Part(f"{every}  {names}", DIM))


def _verdict(view: View, width: int, most: int) -> list[Line]:
    judged, window = view.judged, view.judged_window
    if judged is None or window is None:
        text, style = _no_verdict(view), BOLD
    else:
        text = judged.sentence if window == "now" else f"{LABELS[window]}: {judged.sentence}"
        style = STYLES.get(judged.cause, BOLD)
    lines = _wrapped(text, width)
    if len(lines) > most:
        lines = [*lines[: most - 1], lines[most - 1][: width - 1] + "…"]
    return [(Part(line, style),) for line in lines]


def _no_verdict(view: View) -> str:
    """Return why there is no verdict."""
    requests = view.windows["10m"].requests
    if requests:
        return f"{counted(requests, 'request')} in ten minutes: too few for a verdict."
    if view.where and view.in_memory:
        only = printable(view.where, 60)
        return f"None of {counted(view.in_memory, 'request')} of the last ten minutes matches {only}; Esc shows all."
    return "No request ended in the last ten minutes."


def _headings(columns: tuple[Column, ...], room: int, sort: str, count: int) -> list[Line]:
    def cells(texts: list[str]) -> Line:
        parts = [Part(" " * room)]
        for column, text in zip(columns, texts, strict=True):
            space = WIDTH - len(text)
            style = REVERSE if column.key == sort else DIM
            parts += [Part(" " * space), Part(text, style, ("app.choose", ("sort", column.key)))]
        return tuple(parts)

    if count == 1:
        return [cells([column.alone for column in columns])]
    above = "".join(text.rjust(width) for text, width in headings_above([column.above for column in columns]))
    return [(Part(" " * room + above, DIM),), cells([column.heading for column in columns])]


def _cells(columns: tuple[Column, ...], row: dict[str, object], seconds: float) -> list[Part]:
    return [Part(number(column.text(column.value(row, seconds))), column.style) for column in columns]


def _window(name: str, figures: Figures, columns: tuple[Column, ...], room: int) -> Line:
    label = Part(name_cell(LABELS[name], room), BOLD, ("app.choose", ("window", name)))
    return (label, *_cells(columns, row_of(figures), figures.seconds))


def _groups(view: View, looks: Looks, columns: tuple[Column, ...], room: int) -> list[Line]:
    window = view.windows[looks.window]
    rows = sorted_rows(_with_caused(view, window.groups), looks.sort, window.seconds)
    first = min(looks.scroll, max(len(rows) - 1, 0))
    more = (
        f", from {first + 1} of {window.values}" if first else f", {window.values} in all" if window.values > 1 else ""
    )
    title: Line = (
        Part(f"by {view.by}, ", DIM, ("app.next", ("by",))),
        Part(f"{LABELS[looks.window]}, ", DIM, ("app.next", ("window",))),
        Part(f"most {sort_words(looks.sort)} first{more}", DIM, ("app.next", ("sort",))),
    )
    cells = ((row["value"], _cells(columns, row, window.seconds)) for row in rows[first:])
    return [title, *((_name(view.by, value, room), *parts) for value, parts in cells)]


def _with_caused(view: View, groups: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """Return groups with the share of the last minute's waiting that each caused."""
    queues = view.queues
    shares: dict[str, float] = {}
    if queues is not None and queues.kind == WAITING and queues.waited > 0:
        shares = {row["culprit"]: row["share"] for row in queues.culprits if row["culprit"] is not None}
    absent = 0.0 if shares else None
    return [{**row, "caused": shares.get(str(row["value"]), absent)} for row in groups]


def _name(by: str, value: object, room: int) -> Part:
    """Return a group's name; a click filters by it."""
    return Part(name_cell(value, room - 1) + " ", "", ("app.choose", ("where", f"{by}={value}")) if value else None)


def _rejects(view: View) -> Line:
    minute = view.windows["1m"]
    rates = [f"{status} {rate_text(count / minute.seconds)}/s" for status, count in minute.statuses.items() if count]
    none = f"no errors ({' '.join(map(str, minute.statuses))})"
    parts = [Part("1 min: ", DIM), Part("  ".join(rates), BAD) if rates else Part(none, DIM)]
    records = view.records
    if records.rejected:
        reasons = sorted(records.reasons.items(), key=lambda entry: -entry[1])
        counts = ", ".join(f"{reason} {count:,}" for reason, count in reasons[:3])
        parts.append(Part(f"  lines refused: {counts}", BAD))
    return tuple(parts)


def _culprits(view: View, width: int) -> list[Line]:
    queues = view.queues
    if queues is None or (not queues.culprits and queues.waited <= 0):
        return []
    culprits = [(printable(row["culprit"] or "–", 40), row["share"]) for row in queues.culprits[:MOST_CULPRITS]]
    caused = ", ".join(f"{name} {share_text(share)}" for name, share in culprits if share >= LEAST_SHARE)
    if queues.kind != WAITING:
        return [(Part(line),) for line in _wrapped(f"The last minute's seconds went to {caused}", width)[:2]]
    free = LOOKED_FREE if queues.looked_free else "dispatch"
    seconds = {free if name == "dispatch" else name: seconds for name, seconds in queues.accounts.items()}
    shares = {name: each / queues.waited for name, each in seconds.items() if each >= LEAST_SHARE * queues.waited > 0}
    ranked = sorted(shares, key=lambda name: -shares[name])
    total = f"total wait {duration(queues.waited)} in the last minute"
    leads = bool(caused) and culprits[0][1] >= max(shares.values(), default=0.0)
    for explanations in (FREE, {}):  # explanations are left out where two lines cannot hold them
        others = ", ".join(f"{explanations.get(name, name)} {share_text(shares[name])}" for name in ranked)
        if leads:
            text = f"Caused by {caused}; {total}{others and f': {others}'}"
        else:
            text = f"{total.capitalize()}: {others}{caused and f'; caused by {caused}'}"
        lines = _wrapped(text, width)
        if len(lines) <= 2:
            break
    return [(Part(line, QUEUEING),) for line in lines[:2]]


def _wrapped(text: str, width: int) -> list[str]:
    """Wrap text, keeping numbers and units together."""
    return [line.replace("\u00a0", " ") for line in textwrap.wrap(unbroken(text), max(width, 20))]


def _history(view: View, looks: Looks, room: int, width: int) -> list[Line]:
    if all(value is None for value in view.history):
        return []
    top = max((value for value in view.history if value is not None), default=0.0)
    unit = "" if top >= LONG else " ms"
    label = name_cell(f"queue ≤{time_text(top)}{unit}", room - 1)
    bars = sparkline(view.history, width - room, ascii_only=looks.ascii_only)
    return [(Part(label + " ", DIM), Part(bars, QUEUEING))]


def _backends(view: View, room: int, width: int, headings: int) -> list[Line]:
    queues = view.queues
    if queues is None or not queues.backends:
        return []
    count = min((width - room) // WIDTH, len(BACKENDS))
    columns = BACKENDS[:count]
    if headings == 1:
        lines: list[Line] = [
            (Part(name_cell("backends", room) + "".join(number(alone) for alone, _, _ in columns), DIM),)
        ]
    else:
        lag = f"; workers and queue as of {duration(max(queues.lag, 0.0))} ago, the log's lag" if queues.as_of else ""
        above = "".join(text.rjust(space) for text, space in headings_above([above for _, above, _ in columns]))
        heads = "".join(number(heading) for _, _, heading in columns)
        lines = [
            (Part(f"backends, 1 min{lag}", DIM),),
            (Part(" " * room + above, DIM),),
            (Part(" " * room + heads, DIM),),
        ]
    ranked = sorted(queues.backends, key=lambda row: -(row["queueing_delay"]["mean"] or 0.0))
    for row in ranked[:MOST_BACKENDS]:
        cells = [
            rate_text(row["rate"]),
            time_text(row["queueing_delay"]["mean"]),
            time_text(row["queueing_delay"]["p99"]),
            ("≥ " if queues.looked_free and row["busy"] is not None else "") + share_text(row["busy"]),
            f"{row['workers']:,}",
            rate_text(row["depth"]),
            *("–" if row[key] is None else f"{row[key]:,}" for key in ("most", "last")),
        ]
        styles = ("", QUEUEING, QUEUEING, "", "", "", "", "")
        parts = [Part(number(cell), style) for cell, style in zip(cells[:count], styles, strict=False)]
        lines.append((_name("upstream", row["upstream"], room), *parts))
    if len(ranked) > MOST_BACKENDS:
        lines.append((Part(f"… {len(ranked) - MOST_BACKENDS} more; g groups by upstream", DIM),))
    return lines


def _fitted(line: Line, width: int, *, ascii_only: bool) -> Line:
    """Cut a line to the width."""
    parts = []
    for part in line:
        text = plain_text(part.text) if ascii_only else part.text
        if cell_len(text) > width:
            text = set_cell_size(text, width)
        width -= cell_len(text)
        if text:
            parts.append(part._replace(text=text))
    return tuple(parts)

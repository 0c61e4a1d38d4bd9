"""A view laid out in the lines and columns there are: what matters most first, the table gets the rest."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from sojourn.model.formatting import duration, printable, unbroken
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
    name_width,
    named,
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
SMALL = 6  # lines: with fewer below the windows, the table has no title
# Of each column of the backends: its heading in one line, and in two.
BACKENDS = (
    ("req/s", "", "req/s"), ("q mean", "queueing", "mean"), ("q p99", "queueing", "p99"), ("busy", "workers", "busy"),
    ("of", "workers", "count"), ("depth", "in queue", "mean"), ("most", "in queue", "most"),
    ("last", "in queue", "last"),
)  # fmt: skip
BACKENDS_SHOWN = 4
CULPRITS_SHOWN = 4
LEAST_SHARE = 0.001
FREE = {"imbalance": "imbalance (another backend was free)", "dispatch": "dispatch (its backend was free)"}


@dataclass(frozen=True)
class Looks:
    """How a view is looked at.

    Attributes:
        window: of the table. sort: of ``SORTS``. scroll: rows of it passed over.
        every: s between two pictures.
        ascii_only: the terminal knows no other signs.
        live: say how often the picture changes.
    """

    window: str = "1m"
    sort: str = SECONDS
    scroll: int = 0
    every: float = 1.0
    paused: bool = False
    ascii_only: bool = False
    live: bool = True


def screen(view: View, looks: Looks, width: int, height: int | None = None) -> list[Line]:
    """Lines of a view, none wider than ``width``, at most ``height`` (None: as many as there are)."""
    lines = _lines(view, looks, width, height)
    return [_fitted(line, width, ascii_only=looks.ascii_only) for line in lines[:height]]


def text_of(lines: list[Line]) -> str:
    """Lines without their styles."""
    return "".join("".join(part.text for part in line).rstrip() + "\n" for line in lines)


def _lines(view: View, looks: Looks, width: int, height: int | None) -> list[Line]:
    columns = columns_in(width)
    room = name_width(width, len(columns))
    top = [_header(view, looks), *_verdict(view, width, 2 if height is None or height >= 16 else 1)]
    top += _headings(columns, room, looks.sort, 2 if height is None or height >= 16 else 1)
    top += [_window(name, found, columns, room) for name, found in view.windows.items()]
    groups = _groups(view, looks, columns, room)
    # What is below the table, the most important first; and the order in which it stands.
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
    kept: list[tuple[int, list[Line]]] = []
    for order, lines in below:
        if lines and len(lines) <= left - least:
            kept.append((order, lines))
            left -= len(lines)
    bottom = [line for _, lines in sorted(kept, key=lambda entry: entry[0]) for line in lines]
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
        how = "behind" if view.late > 0 else "ahead of"
        parts.append(Part(f"  log {duration(abs(view.late))} {how} this clock", BAD))
    elif view.age is not None and view.age > max(SILENT, 3 * looks.every):
        parts.append(Part(f"  last record {duration(view.age)} ago", BAD))
    if view.where:
        parts.append(Part(f"  only {printable(view.where, 30)}", BOLD, ("app.filter", ())))
    every = f"  every {looks.every:g} s" if looks.live else ""
    return (*parts, Part(f"{every}  {names}", DIM))


def _verdict(view: View, width: int, most: int) -> list[Line]:
    name, found = next(((n, w) for n, w in view.windows.items() if w.judged), ("", None))
    if found is None or found.judged is None:
        return [(Part("No request ended in these ten minutes.", BOLD),)]
    text = found.judged.sentence if name == "now" else f"{LABELS[name]}: {found.judged.sentence}"
    lines = _wrapped(text, width)
    if len(lines) > most:
        lines = [*lines[: most - 1], lines[most - 1][: width - 1] + "…"]
    return [(Part(line, STYLES.get(found.judged.cause, BOLD)),) for line in lines]


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
    return [Part(number(column.shown(column.value(row, seconds))), column.style) for column in columns]


def _window(name: str, found: Figures, columns: tuple[Column, ...], room: int) -> Line:
    label = Part(named(LABELS[name], room), BOLD, ("app.choose", ("window", name)))
    return (label, *_cells(columns, row_of(found), found.seconds))


def _groups(view: View, looks: Looks, columns: tuple[Column, ...], room: int) -> list[Line]:
    found = view.windows[looks.window]
    rows = sorted_rows(found.groups, looks.sort, found.seconds)
    first = min(looks.scroll, max(len(rows) - 1, 0))
    more = f", from {first + 1} of {found.values}" if first else f", {found.values} in all" if found.values > 1 else ""
    title: Line = (
        Part(f"by {view.by}, ", DIM, ("app.next", ("by",))),
        Part(f"{LABELS[looks.window]}, ", DIM, ("app.next", ("window",))),
        Part(f"most {sort_words(looks.sort)} first{more}", DIM, ("app.next", ("sort",))),
    )
    cells = ((row["value"], _cells(columns, row, found.seconds)) for row in rows[first:])
    return [title, *((_name(view.by, value, room), *parts) for value, parts in cells)]


def _name(by: str, value: object, room: int) -> Part:
    """A group's name: a click leaves its requests only."""
    return Part(named(value, room - 1) + " ", "", ("app.choose", ("where", f"{by}={value}")) if value else None)


def _rejects(view: View) -> Line:
    minute = view.windows["1m"]
    rates = [f"{status} {rate_text(count / minute.seconds)}/s" for status, count in minute.statuses.items() if count]
    none = f"no errors ({' '.join(map(str, minute.statuses))})"
    parts = [Part("1 min: ", DIM), Part("  ".join(rates), BAD) if rates else Part(none, DIM)]
    records = view.records
    if records.rejected:
        reasons = sorted(records.reasons.items(), key=lambda entry: -entry[1])
        listed = ", ".join(f"{reason} {count:,}" for reason, count in reasons[:3])
        parts.append(Part(f"  lines refused: {listed}", BAD))
    return tuple(parts)


def _culprits(view: View, width: int) -> list[Line]:
    found = view.queues
    if found is None or (not found.culprits and found.waited <= 0):
        return []
    accounts = [(printable(row["culprit"] or "–", 40), row["share"]) for row in found.culprits[:CULPRITS_SHOWN]]
    begin = "The last minute's seconds went to"
    if found.kind == WAITING:
        begin = f"Waited {duration(found.waited)} in the last minute:"
        others = (("imbalance", found.imbalance), ("dispatch", found.dispatch))
        accounts += [(name, seconds / found.waited) for name, seconds in others if found.waited > 0]
    ranked = sorted((account for account in accounts if account[1] >= LEAST_SHARE), key=lambda account: -account[1])
    for words in (FREE, {}):  # what the accounts mean is left out where two lines cannot hold it
        listed = ", ".join(f"{words.get(name, name)} {share_text(share)}" for name, share in ranked)
        lines = _wrapped(f"{begin} {listed}", width)
        if len(lines) <= 2:
            break
    return [(Part(line, QUEUEING if found.kind == WAITING else ""),) for line in lines[:2]]


def _wrapped(text: str, width: int) -> list[str]:
    """Text in lines, numbers beside their units."""
    return [line.replace("\u00a0", " ") for line in textwrap.wrap(unbroken(text), max(width, 20))]


def _history(view: View, looks: Looks, room: int, width: int) -> list[Line]:
    if all(value is None for value in view.history):
        return []
    top = max((value for value in view.history if value is not None), default=0.0)
    unit = "" if top >= LONG else " ms"
    label = named(f"queue ≤{time_text(top)}{unit}", room - 1)
    bars = sparkline(view.history, width - room, ascii_only=looks.ascii_only)
    return [(Part(label + " ", DIM), Part(bars, QUEUEING))]


def _backends(view: View, room: int, width: int, headings: int) -> list[Line]:
    found = view.queues
    if found is None or not found.backends:
        return []
    count = min((width - room) // WIDTH, len(BACKENDS))
    shown = BACKENDS[:count]
    if headings == 1:
        lines: list[Line] = [(Part(named("backends", room) + "".join(number(alone) for alone, _, _ in shown), DIM),)]
    else:
        lag = f"; workers and queue as of {duration(max(found.lag, 0.0))} ago, the log's lag" if found.as_of else ""
        above = "".join(text.rjust(space) for text, space in headings_above([above for _, above, _ in shown]))
        heads = "".join(number(heading) for _, _, heading in shown)
        lines = [
            (Part(f"backends, 1 min{lag}", DIM),),
            (Part(" " * room + above, DIM),),
            (Part(" " * room + heads, DIM),),
        ]
    ranked = sorted(found.backends, key=lambda row: -(row["queueing_delay"]["mean"] or 0.0))
    for row in ranked[:BACKENDS_SHOWN]:
        cells = [
            rate_text(row["rate"]),
            time_text(row["queueing_delay"]["mean"]),
            time_text(row["queueing_delay"]["p99"]),
            share_text(row["busy"]),
            f"{row['workers']:,}",
            rate_text(row["depth"]),
            *("–" if row[key] is None else f"{row[key]:,}" for key in ("most", "last")),
        ]
        styles = ("", QUEUEING, QUEUEING, "", "", "", "", "")
        parts = [Part(number(cell), style) for cell, style in zip(cells[:count], styles, strict=False)]
        lines.append((_name("upstream", row["upstream"], room), *parts))
    if len(ranked) > BACKENDS_SHOWN:
        lines.append((Part(f"… {len(ranked) - BACKENDS_SHOWN} more; g groups by upstream", DIM),))
    return lines


def _fitted(line: Line, width: int, *, ascii_only: bool) -> Line:
    """A line cut to the width."""
    parts = []
    for part in line:
        text = plain_text(part.text) if ascii_only else part.text
        if cell_len(text) > width:
            text = set_cell_size(text, width)
        width -= cell_len(text)
        if text:
            parts.append(part._replace(text=text))
    return tuple(parts)

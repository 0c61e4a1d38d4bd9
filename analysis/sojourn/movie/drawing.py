"""A frame: the scenes of a film at one instant, as an image."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from PIL import Image

from sojourn.model.arrays import Floats, Ints
from sojourn.model.formatting import printable
from sojourn.movie.film import Film
from sojourn.movie.layout import BAR, DEPTH, FEW, NAME, PAD, SHELF, Layout, layout_of, stripe_of, strokes_of
from sojourn.movie.moment import ABANDONED, UNKNOWN, WAITING, WORKING, busy_shares, counts_of, squares_of
from sojourn.movie.pen import Colour, Pen, text_width
from sojourn.movie.scenes import DOUBT, GIVEN_UP_CODE, LABELS, SERVED_CODE, Scene
from sojourn.movie.theme import INK, ROUTE_COLOURS, STROKE, Theme, mixed
from sojourn.present.palette import OTHER, QUEUEING, SERVICE
from sojourn.timeline import phases
from sojourn.timeline.request_timelines import OUTCOMES

NARROW = 340  # px: minimum width of scenes side by side
TOP, CAPTION, FOOT = 36, 20, 28
ENTRIES, ENTRY = 18, 36  # px: height of a row of the legend; square and gaps of one of its entries
PHASES = {
    phases.READ: "read: reads the request",
    phases.BODY: "body: sends the answer",
    phases.AFTER: "after: works after the answer",
}
LEGEND = 560  # px: minimum width for the full legend
FILL = {WAITING: QUEUEING, WORKING: SERVICE, ABANDONED: OTHER}
Entry = tuple[str, str, str, str]
"""Of the legend: kind, phase and stripe (empty: none) of a square, and what they mean."""


@dataclass(frozen=True)
class Sheet:
    """Positions of a film's scenes: left, top and layout of each; and the rows of its legend."""

    film: Film
    theme: Theme
    width: int
    height: int
    places: tuple[tuple[float, float, Layout], ...]
    legend: tuple[tuple[Entry, ...], ...]


def sheet_of(film: Film, width: int, theme: Theme) -> Sheet:
    """Place scenes side by side where they fit, otherwise below one another."""
    count = len(film.scenes)
    columns = max(min(count, width // NARROW), 1)
    each = width / columns
    places: list[tuple[float, float, Layout]] = []
    top = float(TOP + (CAPTION if film.left_out else 0))
    for first in range(0, count, columns):
        row = [layout_of(scene, each - 8) for scene in film.scenes[first : first + columns]]
        places += [(k * each + 4, top, layout) for k, layout in enumerate(row)]
        top += max(layout.height for layout in row) + 10
    legend = _legend_of(film, width)
    height = top + FOOT + (len(legend) - 1) * ENTRIES
    return Sheet(film, theme, width, round(height), tuple(places), legend)


def frame_of(sheet: Sheet, now: float, slide: float) -> Image.Image:
    """Draw the film at an instant (s); moves take ``slide`` seconds of the requests' time."""
    pen = Pen(sheet.width, sheet.height, sheet.theme)
    room = sheet.width - 3 * PAD - text_width(clock(sheet.film, sheet.film.seconds), 15)
    pen.text((PAD + 4, 10), sheet.film.title, 17, sheet.theme.text, most=room)
    pen.text((sheet.width - PAD - 4, 10), clock(sheet.film, now), 15, sheet.theme.text, anchor="ra")
    if sheet.film.left_out:
        words = f"left out: {sheet.film.left_out}"
        pen.text((PAD + 4, TOP - 3), words, 12, sheet.theme.dim, most=sheet.width - 2 * PAD - 8)
    for scene, (left, top, layout) in zip(sheet.film.scenes, sheet.places, strict=True):
        _scene(pen.at(left, top), sheet.film, scene, layout, now, slide)
    _legend(pen.at(0, sheet.height - FOOT - (len(sheet.legend) - 1) * ENTRIES), sheet)
    return pen.image()


def clock(film: Film, now: float) -> str:
    """Format an instant, with the time of day where the scenes share one."""
    digits = 1 if film.seconds >= 10 else 2 if film.seconds >= 1 else 3
    elapsed = f"{now:,.{digits}f} of {film.seconds:,.{digits}f} s"
    if film.begun is None:
        return elapsed
    return f"{film.begun + timedelta(seconds=now):%H:%M:%S} UTC  {elapsed}"


def length(film: Film) -> str:
    """Format the film's length for the depth chart."""
    return f"{film.seconds:,.0f} s" if film.seconds >= 100 else f"{film.seconds:.3g} s"


def _scene(pen: Pen, film: Film, scene: Scene, layout: Layout, now: float, slide: float) -> None:
    theme, counts = pen.theme, counts_of(scene, now)
    stripes = dict(zip(film.routes, ROUTE_COLOURS, strict=False))
    pen.box((0, 0), (layout.width, layout.height), None, theme.line, 6)
    pen.text((PAD, 7), scene.name, 15, theme.text, most=layout.width - 2 * PAD)
    held = [f"{LABELS[phase]} {counts.held[phase]}" for phase in scene.held(0.0, film.seconds)]
    caption = " · ".join([f"waiting {counts.waiting}", *held])
    caption += f" · given up, still queued {counts.gone}" if counts.gone else ""
    pen.text((PAD, 26), caption, 12, theme.dim, most=layout.width - 2 * PAD)
    for lane, place in enumerate(layout.lanes):
        if len(layout.lanes) > 1:
            pen.text((PAD, place.top - NAME + 2), scene.lanes[lane].name, 11, theme.dim)
        pen.box((PAD - 4, place.top), (layout.width - 2 * PAD + 8, place.height), theme.panel, None, 4)
        busy = busy_shares(scene, lane, now, slide)
        for number, share in enumerate(busy):
            corner = layout.worker(lane, number)
            edge = mixed(theme.dim, SERVICE, float(share))
            radius, thick = (5, 1.5) if layout.box >= 16 else (1, 1)
            pen.box(corner, (layout.box, layout.box), theme.paper, edge, radius, thick)
        for square in squares_of(scene, layout, lane, now, slide):
            corner, number = (square.x, square.y), int(scene.number[square.index])
            stripe = stripes.get(scene.route[square.index], "") if scene.route else ""
            _square(pen, square.kind, corner, layout.size, number, square.opacity, phase=square.phase, stripe=stripe)
        queued = (scene.lane == lane) & (scene.arrival <= now) & (now < scene.until)
        more = int(queued.sum()) - layout.fits(lane)
        if more > 0:
            pen.text((PAD, place.top + 4), f"+{more}", 12, theme.text)
    if layout.shelves:
        _shelves(pen, scene, layout, now)
    else:
        _bar(pen, scene, layout, counts.ended)
    _depth(pen, film, scene, layout, now)


def _square(
    pen: Pen,
    kind: str,
    corner: tuple[float, float],
    size: float,
    number: int,
    opacity: float = 1.0,
    struck: bool = True,
    phase: str = phases.SERVICE,
    stripe: str = "",
) -> None:
    theme = pen.theme
    radius = 4 if size >= 12 else 0
    numbered = size >= 14 and number < 1_000
    if kind == UNKNOWN:
        pen.box(
            corner, (size, size), theme.panel, mixed(theme.panel, theme.dim, opacity), radius, 1.5 if size >= 8 else 1
        )
        ink: Colour = theme.dim
    else:
        pen.box(corner, (size, size), mixed(theme.panel, FILL[kind], opacity), None, radius)
        strokes = strokes_of(phase, size)
        for x, y, to_x, to_y in strokes:
            ends = [(corner[0] + x, corner[1] + y), (corner[0] + to_x, corner[1] + to_y)]
            pen.line(ends, mixed(FILL[kind], STROKE, 0.5), 2 if size >= 16 else 1.5)
        if strokes and numbered:
            middle = 0.56 * size
            pen.box((corner[0] + 0.22 * size, corner[1] + 0.22 * size), (middle, middle), FILL[kind], None, middle / 2)
        ink = mixed(theme.panel, INK, opacity)
        if stripe:
            top, high = stripe_of(size)
            pen.box((corner[0], corner[1] + top), (size, high), mixed(theme.panel, stripe, opacity))
    if numbered:
        font_size = 0.55 * size if number < 100 else 0.42 * size
        pen.text((corner[0] + size / 2, corner[1] + size / 2), str(number), font_size, ink, anchor="mm")
    if kind == ABANDONED and struck and size >= 6:
        # Not by colour alone: abandoned requests are struck through.
        pen.line([(corner[0] + 2, corner[1] + size - 2), (corner[0] + size - 2, corner[1] + 2)], ink, 1.2)


def _shelves(pen: Pen, scene: Scene, layout: Layout, now: float) -> None:
    for row, code in enumerate(layout.shelves):
        top = layout.shelf + row * SHELF
        ended = np.flatnonzero((scene.outcome == code) & (scene.left >= 0) & (scene.left <= now))
        pen.text((PAD, top + SHELF / 2), f"{OUTCOMES[code]} {len(ended)}", 12, pen.theme.text, anchor="lm")
        kind = WORKING if code == SERVED_CODE else ABANDONED
        size = min(20.0, max((layout.width - 110 - PAD) / max(int((scene.outcome == code).sum()), 1) - 3, 1.0))
        for k, index in enumerate(ended[np.argsort(scene.left[ended], kind="stable")].tolist()):
            corner = (110 + k * (size + 3), top + (SHELF - size) / 2)
            _square(pen, kind, corner, size, int(scene.number[index]), struck=False)


def _bar(pen: Pen, scene: Scene, layout: Layout, ended: tuple[int, ...]) -> None:
    """Draw ended requests as a share of all: one bar segment per outcome."""
    words = " · ".join(
        f"{name} {ended[k]:,}" for k, name in enumerate(OUTCOMES) if k == 0 or (scene.outcome == k).any()
    )
    pen.text((PAD, layout.shelf), words, 12, pen.theme.text, most=layout.width - 2 * PAD)
    x, top, whole = float(PAD), layout.shelf + BAR - 12, layout.width - 2 * PAD
    pen.box((x, top), (whole, 8), pen.theme.panel, pen.theme.line)
    for code, count in enumerate(ended):
        wide = whole * count / max(len(scene), 1)
        if wide > 0:
            fill: Colour = SERVICE if code == SERVED_CODE else OTHER if code == GIVEN_UP_CODE else pen.theme.dim
            pen.box((x, top), (wide, 8), fill)
        x += wide


def _depth(pen: Pen, film: Film, scene: Scene, layout: Layout, now: float) -> None:
    theme = pen.theme
    left, right = PAD + 26.0, layout.width - PAD
    top, bottom = layout.depth + 6, layout.depth + DEPTH - 20
    columns = max(int(right - left), 2)
    whole = deepest(scene.in_line(), film.seconds, columns)
    waiting = deepest(scene.waiting(), film.seconds, columns)
    most = max(int(whole.max(initial=0)), 1)
    for levels, colour in ((whole, OTHER), (waiting, QUEUEING)):
        for k in np.flatnonzero(levels).tolist():
            high = (bottom - top) * float(levels[k]) / most
            pen.box((left + k, bottom - high), (1, high), colour)
    pen.line([(left, bottom), (right, bottom)], theme.line)
    pen.text((left - 4, top), f"{most}", 10, theme.dim, anchor="rt")
    pen.text((left - 4, bottom), "0", 10, theme.dim, anchor="rs")
    pen.text((left, bottom + 4), "queue depth over time", 10, theme.dim)
    pen.text((right, bottom + 4), length(film), 10, theme.dim, anchor="ra")
    x = left + (right - left) * min(max(now / film.seconds, 0), 1)
    pen.line([(x, top - 3), (x, bottom + 3)], theme.text, 1.5)


def deepest(steps: tuple[Floats, Ints], seconds: float, columns: int) -> Ints:
    """Return the maximum in each of ``columns`` equal parts of [0, seconds)."""
    at, level = steps
    edges = np.linspace(0, seconds, columns + 1)
    # The level when a part begins, and every change inside it.
    before = np.searchsorted(at, edges[:-1], "right") - 1
    maxima: Ints = np.where(before >= 0, level[np.maximum(before, 0)], 0) if len(at) else np.zeros(columns, np.int64)
    part = np.searchsorted(edges, at, "right") - 1
    inside = (part >= 0) & (part < columns)
    np.maximum.at(maxima, part[inside], level[inside])
    return maxima


def _legend_of(film: Film, width: int) -> tuple[tuple[Entry, ...], ...]:
    """Return the rows of the legend: what occurs in the film."""
    details = {phase: each if width >= LEGEND else LABELS[phase] for phase, each in PHASES.items()}
    entries = [(WAITING, phases.SERVICE, "", "waiting"), (WORKING, phases.SERVICE, "", LABELS[phases.SERVICE])]
    entries += [(WORKING, phase, "", details[phase]) for phase in PHASES if phase in film.phases]
    given_up = "given up: no client waits any more" if width >= LEGEND else "given up"
    entries.append((ABANDONED, phases.SERVICE, "", given_up))
    if DOUBT in film.phases or any((~scene.wait_known).any() for scene in film.scenes):
        entries.append((UNKNOWN, phases.SERVICE, "", "unknown"))
    entries += [
        (WORKING, phases.SERVICE, colour, printable(route, 40))
        for route, colour in zip(film.routes, ROUTE_COLOURS, strict=False)
    ]
    rows: list[tuple[Entry, ...]] = [()]
    x = 0.0
    for entry in entries:
        wide = ENTRY + text_width(entry[-1], 12)
        if rows[-1] and x + wide > width - 2 * PAD + ENTRY / 2:
            rows.append(())
            x = 0.0
        rows[-1] += (entry,)
        x += wide
    return tuple(rows)


def _legend(pen: Pen, sheet: Sheet) -> None:
    theme, x = pen.theme, 0.0
    for row, entries in enumerate(sheet.legend):
        x, y = float(PAD + 4), 6.0 + row * ENTRIES
        for kind, phase, stripe, words in entries:
            _square(pen, kind, (x, y), 12, 1_000, phase=phase, stripe=stripe)
            x += pen.text((x + 18, y + 6), words, 12, theme.dim, anchor="lm") + ENTRY
    few = all(len(scene) <= FEW for scene in sheet.film.scenes)
    if few and x + 200 < sheet.width:
        y = 12 + (len(sheet.legend) - 1) * ENTRIES
        pen.text((sheet.width - PAD - 4, y), "number: order of arrival", 12, theme.dim, anchor="rm")

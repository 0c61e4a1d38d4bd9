"""The film as an animated GIF, or one instant of it as a PNG."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from PIL import Image

from sojourn.model.errors import SojournError
from sojourn.model.formatting import counted
from sojourn.movie.drawing import Sheet, frame_of, sheet_of
from sojourn.movie.film import Film
from sojourn.movie.theme import Theme, colours_of
from sojourn.present.files import written_whole

FPS = 12.5
SECONDS = 15.0
WIDTH = 800
LEAST_WIDTH, MOST_WIDTH = 320, 1_920
MOST_FRAMES = 600
"""Limit: more frames take minutes to draw and megabytes to store."""
MOST_PIXELS = 400_000_000
"""Limit for all frames together: Pillow holds them all, a byte per pixel."""
LAST_FRAME = 3.0  # s: the last frame
SLIDE = 0.35  # s of the film: duration of a square's move


def frame_times(film: Film, seconds: float, fps: float) -> list[float]:
    """Return the instants of the frames, in seconds of the requests: the first at 0, the last at the end.

    Raises:
        SojournError: there would be more than ``MOST_FRAMES``.
    """
    count = max(round(seconds * fps), 1) + 1
    if count > MOST_FRAMES:
        raise SojournError(
            f"{counted(count, 'frame is', 'frames are')} more than the {MOST_FRAMES} of a GIF: make it "
            "shorter (--seconds), faster (--speed), or with fewer frames a second (--fps)"
        )
    return [float(each) for each in np.linspace(0.0, film.seconds, count)]


def write_gif(
    film: Film, path: str | os.PathLike[str], *, theme: Theme, seconds: float, fps: float, width: int
) -> None:
    """Write the film, whole or not at all; it loops, and holds its last frame for ``LAST_FRAME`` seconds.

    It plays for ``seconds``, the last frame apart. GIF counts hundredths: frames come at the nearest rate to
    ``fps`` that these allow.

    Raises:
        SojournError: too many frames, frames that are too large, or the file cannot be written.
    """
    hundredths = max(round(100 / fps), 2)
    times = frame_times(film, seconds, 100 / hundredths)
    sheet = sheet_of(film, checked_width(width), theme)
    if sheet.width * sheet.height * len(times) > MOST_PIXELS:
        raise SojournError(
            f"{counted(len(times), 'frame')} of {sheet.width} × {sheet.height} pixels are too much for a GIF: make it "
            "smaller (--width), shorter (--seconds), or of fewer scenes (--scene)"
        )
    frames = _frames(sheet, times, SLIDE * film.seconds / seconds)
    first = next(frames)
    durations = [hundredths * 10] * (len(times) - 1) + [round(LAST_FRAME * 1_000)]
    options: dict[str, Any] = {"format": "GIF", "save_all": True, "loop": 0, "optimize": True, "disposal": 1}
    with written_whole(path) as partial:
        first.save(partial, append_images=frames, duration=durations, **options)


def write_still(film: Film, path: str | os.PathLike[str], *, theme: Theme, at: float, width: int) -> None:
    """Write the film at an instant as PNG; ``at`` in seconds on its clock.

    Raises:
        SojournError: the instant is outside the film, or the file cannot be written.
    """
    if not 0 <= at <= film.seconds:
        raise SojournError(f"{at:g} s is outside the film, which lasts {film.seconds:g} s")
    image = frame_of(sheet_of(film, checked_width(width), theme), at, 0.0)
    with written_whole(path) as partial:
        image.save(partial, format="PNG", optimize=True)


def checked_width(width: int) -> int:
    """Return the width if it is allowed.

    Raises:
        SojournError: it is too small to read, or larger than any screen.
    """
    if not LEAST_WIDTH <= width <= MOST_WIDTH:
        raise SojournError(f"a width of {width} is not between {LEAST_WIDTH} and {MOST_WIDTH} pixels")
    return width


def _frames(sheet: Sheet, times: list[float], slide: float) -> Iterator[Image.Image]:
    """Draw frames with one palette, so that only changed pixels are stored."""
    palette = Image.new("P", (1, 1))
    colours = colours_of(sheet.theme, strokes=len(sheet.film.phases) > 1, routes=len(sheet.film.routes))
    palette.putpalette([part for colour in colours for part in colour])
    for now in times:
        yield frame_of(sheet, now, slide).quantize(palette=palette, dither=Image.Dither.NONE)

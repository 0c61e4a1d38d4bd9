"""The pen that draws a frame, on an image that is reduced for smooth edges."""

from __future__ import annotations

import functools

from PIL import Image, ImageDraw, ImageFont

from sojourn.movie.theme import Theme

FINER = 2  # factor by which frames are drawn larger and then reduced, for smooth edges
Colour = str | tuple[int, int, int]


class Pen:
    """Draws in pixels of the picture, on an image ``FINER`` times as large."""

    def __init__(self, width: int, height: int, theme: Theme) -> None:
        self.theme = theme
        self._image = Image.new("RGB", (width * FINER, height * FINER), theme.paper)
        self._draw = ImageDraw.Draw(self._image)
        self._left = self._top = 0.0

    def at(self, left: float, top: float) -> Pen:
        """Return the same pen with another origin."""
        other = object.__new__(Pen)
        other.__dict__.update(self.__dict__, _left=left, _top=top)
        return other

    def image(self) -> Image.Image:
        """Return the image at its final size."""
        return self._image.reduce(FINER)

    def box(
        self, corner: tuple[float, float], size: tuple[float, float], fill: Colour | None, line: Colour | None = None,
        radius: float = 0, thick: float = 1,
    ) -> None:  # fmt: skip
        """Draw a rectangle from its top left corner."""
        x, y = (corner[0] + self._left) * FINER, (corner[1] + self._top) * FINER
        edges = (x, y, x + max(size[0] * FINER - 1, 0), y + max(size[1] * FINER - 1, 0))
        width = round(thick * FINER) if line else 0
        if radius >= 2:
            self._draw.rounded_rectangle(edges, radius * FINER, fill=fill, outline=line, width=width)
        else:
            self._draw.rectangle(edges, fill=fill, outline=line, width=width)

    def line(self, points: list[tuple[float, float]], colour: Colour, thick: float = 1) -> None:
        """Draw a line through points."""
        moved = [((x + self._left) * FINER, (y + self._top) * FINER) for x, y in points]
        self._draw.line(moved, fill=colour, width=round(thick * FINER))

    def text(
        self, at: tuple[float, float], words: str, size: float, colour: Colour, *, anchor: str = "la",
        most: float | None = None,
    ) -> float:  # fmt: skip
        """Draw text, cut to the width ``most``; return its width."""
        font = _font(round(size * FINER))
        if most is not None:
            whole = words
            while words and font.getlength(words) > most * FINER:
                whole = whole[:-1]
                words = whole + "…" if whole else ""
        self._draw.text(
            ((at[0] + self._left) * FINER, (at[1] + self._top) * FINER), words, fill=colour, font=font, anchor=anchor
        )
        return text_width(words, size)


def text_width(words: str, size: float) -> float:
    """Return the width of a text, pixels."""
    return float(_font(round(size * FINER)).getlength(words)) / FINER


@functools.cache
def _font(size: int) -> ImageFont.FreeTypeFont:
    # The font that Pillow brings: no font of the system is needed.
    font = ImageFont.load_default(size)
    assert isinstance(font, ImageFont.FreeTypeFont), "this Pillow was built without FreeType"  # noqa: S101
    return font

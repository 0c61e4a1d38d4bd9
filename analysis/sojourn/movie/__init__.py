"""The queue as it happened, moving: a page with play, pause and a slider, an animated GIF, or one instant of it.

rows of a split  →  stays (sojourn.timeline.request_timelines)  →  scenes  →  a film on one clock  →  page | GIF | PNG
"""

from __future__ import annotations

from sojourn.movie.film import MOST, MOST_SCENES, Film, film_of
from sojourn.movie.scenes import Scene, scene_of
from sojourn.movie.write import film_of_rows, write_film

__all__ = ["MOST", "MOST_SCENES", "Film", "Scene", "film_of", "film_of_rows", "scene_of", "write_film"]

"""The movie: scenes, clock, positions at an instant, and output files."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import sojourn
from movie_support import FIRST, HOSTILE, THREE, crowd, drawn, film, log_of, phased, scene
from PIL import Image, ImageChops
from sojourn.cli import app
from sojourn.model.errors import SojournError
from sojourn.movie.drawing import deepest, frame_of, length, sheet_of
from sojourn.movie.film import MOST
from sojourn.movie.gif import LAST_FRAME, MOST_FRAMES
from sojourn.movie.layout import OUT, PAD, layout_of, stripe_of, strokes_of
from sojourn.movie.moment import ABANDONED, UNKNOWN, WAITING, WORKING, busy_shares, counts_of, squares_of
from sojourn.movie.page import page_of
from sojourn.movie.places import places_of
from sojourn.movie.scenes import DOUBT, LABELS, Scene
from sojourn.movie.theme import DARK, LIGHT, ROUTE_COLOURS, STROKE, colours_of, mixed, rgb
from sojourn.movie.write import film_of_rows, write_film
from sojourn.present.palette import OTHER, QUEUEING
from sojourn.present.palette import SERVICE as BLUE
from sojourn.timeline.phases import AFTER, BODY, READ, SERVICE
from sojourn.timeline.request_timelines import GIVEN_UP, SERVED
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner
from worker_log import WorkerSystem, of_route, worker_log

TEMPLATES = Path(sojourn.__file__).parent / "movie" / "templates"
EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
SIX = [str(EXAMPLES / "six-requests.jsonl.gz"), "--spans", str(EXAMPLES / "six-requests-spans.jsonl.gz")]


# Places


def test_place_is_the_lowest_free_one() -> None:
    assert places_of([(0.0, 3.0), (1.0, 2.0), (2.0, 4.0), (2.5, 3.0)]) == [0, 1, 1, 2]


def test_worker_keeps_its_place_and_a_later_worker_reuses_it() -> None:
    work = [(0.0, 1.0), (0.0, 5.0), (2.0, 3.0), (6.0, 7.0)]
    assert places_of(work, [7, 8, 7, 9]) == [0, 1, 0, 0]
    # The third span has the same worker as the second, so it keeps that place although place 0 is free.
    assert places_of([(0.0, 1.0), (0.0, 2.0), (3.0, 4.0)], [7, 8, 8]) == [0, 1, 1]


def test_worker_with_several_requests_at_a_time_has_no_fixed_place() -> None:
    assert places_of([(0.0, 3.0), (1.0, 2.0)], [7, 7]) == [0, 1]
    # An overlap of a millisecond is nginx's rounding.
    assert places_of([(0.0, 3.001), (3.0, 4.0)], [7, 7]) == [0, 0]


# Scenes and the film


def test_scene_has_a_lane_per_backend_and_the_given_workers() -> None:
    both = pl.concat([THREE, drawn((1.0, 1.0, 2.0, 2.0, SERVED), (1.0, 1.0, 3.0, 3.0, SERVED), backend="b:2")])
    animation = film(scene(both, workers={"a:1": 4})).scenes[0]
    assert [(lane.name, lane.workers) for lane in animation.lanes] == [("a:1", 4), ("b:2", 2)]
    assert film(scene(both, backends=["b:2"])).scenes[0].lanes[0].name == "b:2"


def test_backends_beyond_the_limit_are_left_out_with_a_note() -> None:
    many = pl.concat([drawn(*[(0.0, 0.0, 1.0, 1.0, SERVED)] * (n + 1), backend=f"b:{n}") for n in range(10)])
    animation = film(scene(many))
    assert [lane.name for lane in animation.scenes[0].lanes] == [f"b:{n}" for n in range(2, 10)]
    assert "2 backends more, with 3 requests, are not shown" in animation.notes[0]


def test_overlapping_scenes_share_a_clock_and_others_begin_at_their_first_arrival() -> None:
    together = film(scene(), scene(name="later", later=2.0))
    assert together.begun == FIRST
    assert together.scenes[1].arrival.tolist() == [2.0, 7.0, 8.0]
    assert together.seconds == 92.0
    apart = film(scene(), scene(name="next", later=1_000.0))
    assert apart.begun is None
    assert [each.arrival[0] for each in apart.scenes] == [0.0, 0.0]
    assert apart.seconds == 90.0


def test_note_on_scenes_that_share_backends() -> None:
    assert "share backends" in film(scene(), scene(name="again")).notes[0]
    assert not film(scene(), scene(name="again", later=1_000.0)).notes


def test_window_includes_earlier_requests_still_in_the_system() -> None:
    animation = film(since=FIRST + timedelta(seconds=40), until=FIRST + timedelta(seconds=50))
    assert (animation.begun, animation.seconds) == (FIRST + timedelta(seconds=40), 10.0)
    assert animation.scenes[0].arrival.tolist() == [-40.0, -35.0, -34.0]
    assert counts_of(animation.scenes[0], 0.0).waiting == 2
    with pytest.raises(SojournError, match="--since and --until"):
        film(since=FIRST + timedelta(seconds=100))


def straggling(*, late: float = 100.0) -> Scene:
    """Twenty requests in 6 s, and one more ``late`` seconds after the first."""
    times = [(k * 0.3, k * 0.3, k * 0.3 + 0.25, k * 0.3 + 0.25, SERVED) for k in range(20)]
    return scene(drawn(*times, (late, late, late + 0.1, late + 0.1, SERVED)))


def test_stragglers_are_cut_off() -> None:
    animation = film(straggling())
    assert animation.seconds == pytest.approx(5.95)
    assert len(animation.scenes[0]) == 20
    assert animation.begun == FIRST
    assert animation.left_out == "1 min 34 s after, with 1 request"
    assert animation.notes == (f"Left out: {animation.left_out}. Choose another window with --since and --until.",)
    first = film(
        scene(drawn((0.0, 0.0, 0.1, 0.1, SERVED), *((100.0 + k, None, None, 100.5 + k, SERVED) for k in range(5))))
    )
    assert (first.begun, first.seconds) == (FIRST + timedelta(seconds=100), pytest.approx(4.5))
    assert first.left_out == "1 min 40 s before, with 1 request"


def test_chosen_window_is_shown_completely() -> None:
    animation = film(straggling(), since=FIRST)
    assert (animation.seconds, len(animation.scenes[0]), animation.left_out) == (pytest.approx(100.1), 21, "")
    assert film(straggling(), until=FIRST + timedelta(seconds=100.05)).seconds == pytest.approx(100.05)


@pytest.mark.parametrize("gap", [0.1, 10.0])
def test_steady_traffic_is_shown_completely(gap: float) -> None:
    animation = film(scene(drawn(*((k * gap, k * gap, k * gap + 0.1, k * gap + 0.1, SERVED) for k in range(30)))))
    assert (len(animation.scenes[0]), animation.notes) == (30, ())
    assert film().left_out == ""


def test_picture_has_a_caption_for_left_out_periods() -> None:
    whole, cut = (sheet_of(each, 800, LIGHT) for each in (film(straggling(), since=FIRST), film(straggling())))
    assert cut.height > whole.height
    assert cut.places[0][1] > whole.places[0][1]


def test_many_requests_are_cut_to_the_part_around_the_deepest_queue() -> None:
    table = crowd()
    whole = scene(table)
    at, level = whole.in_line()
    animation = film(whole)
    excerpt = animation.scenes[0]
    assert MOST * 0.95 < len(excerpt) <= MOST
    assert animation.begun is not None
    begin = (animation.begun - FIRST).total_seconds()
    assert begin < at[level.argmax()] < begin + animation.seconds
    there = table.filter((pl.col("arrival") < begin + animation.seconds) & (pl.max_horizontal("end", "left") > begin))
    # The ends are known to a microsecond.
    assert len(set(excerpt.number.tolist()) ^ set(there["number"])) <= 2
    assert excerpt.in_line()[1].max() == level.max()
    assert f"{len(excerpt):,} of 2,500 requests are shown, from 12:00:" in animation.notes[0]
    assert f"({level.max()} in the queue)" in animation.notes[0]


def test_rejects_queue_that_is_too_long_to_draw() -> None:
    waiting = drawn(*[(0.0, 10.0, 11.0, 11.0, SERVED)] * 30)
    with pytest.raises(SojournError, match=r"^30 requests .* 20 can be drawn: .*--since.*--backend"):
        film(scene(waiting), most=20)


def test_reading_summarises_a_scene(snapshot: SnapshotAssertion) -> None:
    whole = film()
    reading = whole.scenes[0].reading(0.0, whole.seconds)
    assert re.findall(r"\d[\d.]*", reading) == ["3", "1", "1", "1", "2", "45.0"]
    assert reading == snapshot
    one = film(scene(drawn((0.0, 0.0, 1.0, 1.0, SERVED))))
    assert one.scenes[0].reading(0.0, 1.0) == snapshot
    assert film(scene(phased())).scenes[0].reading(0.0, 40.0) == snapshot


# An instant


@pytest.mark.parametrize("now", [0.0, 3.0, 30.0, 45.0, 50.0, 61.5, 70.0, 89.9, 90.0])
def test_counts_at_an_instant(now: float) -> None:
    result = counts_of(film().scenes[0], now)
    assert result.waiting == (1 if 5 <= now < 45 else 0) + (1 if 6 <= now < 45 else 0)
    assert result.held == {"read": 0, "service": int(now < 90), "body": 0, "after": 0, "in doubt": 0}
    assert result.ended == (int(now >= 45), int(now >= 65), int(now >= 45))


def kinds(now: float, table: pl.DataFrame = THREE) -> dict[int, str]:
    """Return the number of each visible request -> its kind."""
    one = film(scene(table)).scenes[0]
    return {int(one.number[each.index]): each.kind for each in squares_of(one, layout_of(one, 400), 0, now, 0.0)}


def test_kinds_of_waiting_working_and_abandoned_requests() -> None:
    assert kinds(10.0) == {1: WORKING, 2: WAITING, 3: WAITING}
    assert kinds(50.0) == {2: WORKING}
    assert kinds(70.0) == {2: ABANDONED}
    late = drawn((0.0, 70.0, 72.0, 60.0, GIVEN_UP))
    assert [kinds(now, late) for now in (59.0, 61.0, 71.0)] == [{1: WAITING}, {1: ABANDONED}, {1: ABANDONED}]
    assert kinds(1.0, late.with_columns(begin=None, end=None, wait_known=False)) == {1: UNKNOWN}


def phases(now: float) -> dict[int, tuple[str, str]]:
    """Return the number of each request in a box -> its kind and its phase, of ``phased``."""
    one = film(scene(phased())).scenes[0]
    squares = squares_of(one, layout_of(one, 400), 0, now, 0.0)
    return {int(one.number[each.index]): (each.kind, each.phase) for each in squares if each.kind != WAITING}


def test_square_in_a_box_has_the_phase_in_which_the_request_holds_the_worker() -> None:
    assert phases(3.0) == {1: (WORKING, READ), 2: (WORKING, SERVICE), 3: (WORKING, SERVICE)}
    # The second is served: its worker works on, and it is not given up.
    assert phases(12.0) == {1: (WORKING, BODY), 2: (WORKING, AFTER), 3: (UNKNOWN, DOUBT)}
    assert phases(20.0) == {4: (WORKING, SERVICE), 5: (WORKING, SERVICE)}
    assert phases(26.0) == {4: (WORKING, BODY), 5: (WORKING, SERVICE)}
    assert phases(33.0) == {4: (ABANDONED, BODY)}
    held = counts_of(film(scene(phased())).scenes[0], 12.0).held
    assert held == {READ: 0, SERVICE: 0, BODY: 1, AFTER: 1, DOUBT: 1}


def test_doubt_ends_when_the_worker_takes_another_request() -> None:
    doubtful = film(scene(phased()))
    assert doubtful.scenes[0].doubt_end.tolist()[2] == 16.0
    assert "For 1 request the log does not show whether the body" in doubtful.notes[0]
    alone = film(scene(phased().filter(pl.col("number") == 3))).scenes[0]
    assert (alone.doubt_end.tolist(), alone.freed.tolist()) == ([25.0], [25.0])


def test_phases_are_counted_in_the_window_where_they_occur() -> None:
    animation = film(scene(phased()))
    seconds = {READ: 4.0, SERVICE: 37.0, BODY: 26.0, AFTER: 12.0, DOUBT: 11.0}
    assert animation.scenes[0].held(0.0, 40.0) == seconds
    assert animation.scenes[0].held(20.0, 25.0) == {SERVICE: 9.0, BODY: 1.0}
    assert animation.phases == tuple(seconds)
    assert animation.to_dict()["scenes"][0]["held_seconds"]["in_doubt"] == 11.0  # type: ignore[index]
    assert film().phases == (SERVICE,)


def test_log_shows_the_phases_that_hold_workers(tmp_path: Path) -> None:
    routes = (("/page", 0.8), ("/export", 0.02), ("/signup", 0.18))
    bodies = WorkerSystem(
        load=0.25, routes=routes, body=of_route("/export", 2.0), after=lambda rng, name: rng.expovariate(1 / 0.3)
        if name == "/signup" else 0.0,
    )  # fmt: skip
    uploads = WorkerSystem(
        load=0.45, routes=routes, before=lambda rng, name: rng.expovariate(1 / 0.2) if name == "/signup" else 0.0
    )
    for system, occurring in ((bodies, {SERVICE, BODY, AFTER}), (uploads, {SERVICE, READ})):
        worker_log(tmp_path / "a.jsonl", system)
        animation = film_of_rows(sojourn.split(tmp_path / "a.jsonl"), title="phases", most=system.requests)
        held, expected = animation.scenes[0].held(0.0, animation.seconds), sojourn.depth(tmp_path / "a.jsonl").held
        assert held.keys() == occurring
        for phase, seconds in held.items():
            assert seconds == pytest.approx(expected[phase], rel=0.02), phase


def test_body_in_doubt_is_not_shown_as_a_body(tmp_path: Path) -> None:
    system = WorkerSystem(requests=600, load=0.3, routes=(("/page", 0.99), ("/export", 0.01)))
    worker_log(tmp_path / "a.jsonl", replace(system, body=of_route("/export", 0.2)))
    animation = film_of_rows(sojourn.split(tmp_path / "a.jsonl"), title="doubt")
    assert animation.phases == (SERVICE, DOUBT)
    assert 0.1 < animation.scenes[0].held(0.0, animation.seconds)[DOUBT] <= 2.0


def test_longest_waiting_is_next_to_the_workers() -> None:
    one = film().scenes[0]
    layout = layout_of(one, 400)
    where = {int(one.number[each.index]): each.x for each in squares_of(one, layout, 0, 30.0, 0.0)}
    assert where[3] < where[2] < layout.boxes_left <= where[1]


def test_square_moves_for_the_duration_of_a_slide() -> None:
    one = film().scenes[0]
    layout = layout_of(one, 400)

    def x_of(number: int, now: float) -> float:
        return next(each.x for each in squares_of(one, layout, 0, now, 2.0) if one.number[each.index] == number)

    assert PAD <= x_of(2, 5.1) < x_of(2, 6.0) < x_of(2, 7.0) == x_of(2, 40.0)
    assert x_of(2, 45.1) < x_of(2, 46.0) < x_of(2, 47.0) == x_of(2, 80.0)
    # The third moves up only when the second has gone; it left at the same instant here.
    assert x_of(1, 45.5) > x_of(1, 44.0)


def test_box_shows_the_share_of_time_its_worker_was_held() -> None:
    one = film(scene(drawn((0.0, 0.0, 1.0, 1.0, SERVED), (3.0, 3.0, 4.0, 4.0, SERVED)))).scenes[0]
    assert busy_shares(one, 0, 4.0, 4.0).tolist() == pytest.approx([0.5])
    assert busy_shares(one, 0, 2.0, 0.0).tolist() == [0.0]


def test_depth_chart_shows_the_maximum_of_each_part() -> None:
    steps = (np.array([1.0, 2.0, 2.5, 7.0]), np.array([1, 3, 1, 0]))
    assert deepest(steps, 10.0, 5).tolist() == [1, 3, 1, 1, 0]
    assert deepest((np.array([]), np.array([], np.int64)), 10.0, 2).tolist() == [0, 0]


@pytest.mark.parametrize("width", [240, 328, 560, 1_880])
@pytest.mark.parametrize(("workers", "backends"), [(1, 1), (4, 3), (64, 1), (16, 8), (600, 1)])
def test_layout_fits_every_width(width: int, workers: int, backends: int) -> None:
    one = film(scene(crowd(2_000, backends=backends), workers=workers)).scenes[0]
    layout = layout_of(one, width)
    assert layout.shelf < layout.depth < layout.height < (900 if workers <= 64 else 1_500)
    for lane, place in enumerate(layout.lanes):
        boxes = [layout.worker(lane, number) for number in range(one.lanes[lane].workers)]
        assert len(set(boxes)) == len(boxes)
        assert max(x for x, _ in boxes) + layout.box <= width - OUT
        slots = [layout.slot(lane, number) for number in range(min(layout.fits(lane), one.longest_line(lane)))]
        assert min((x for x, _ in slots), default=PAD) >= PAD - 1
        for _, y in (*boxes, *slots):
            assert place.top <= y
            assert y + layout.size <= place.top + place.height


def test_length_is_rounded_for_long_films() -> None:
    assert length(film(scene(drawn((0.0, 0.0, 1_800.0, 1_800.0, SERVED))))) == "1,800 s"
    assert length(film()) == "90 s"


NODE = shutil.which("node")


@pytest.mark.skipif(NODE is None, reason="node is not installed: the page's script was not compared")
def test_page_script_places_squares_like_the_picture() -> None:
    whole = film(
        scene(crowd(1_900, backends=2)), scene(crowd(60, seed=2, workers=1), "small", workers=400), scene(phased())
    )
    data = re.search(r'id="data">(.*?)</script>', page_of(whole), re.S)
    assert data is not None
    script = (
        "".join((TEMPLATES / name).read_text() for name in ("layout.js", "moment.js"))
        + """
    const input = JSON.parse(require("fs").readFileSync(0, "utf8"));
    const moments = input.scenes.map((scene, index) => {
      scene.longest = input.longest[index];
      const layout = layoutOf(scene, input.width);
      return input.instants.map(now => {
        const drawn = [];
        squares(scene, layout, now, input.slide, (...square) => drawn.push(square));
        const busy = busyShares(scene, now, input.slide).map(each => [...each]);
        return {drawn, counts: countsOf(scene, 0, now), busy};
      }).concat([{deepest: deepest(scene, 0, input.seconds, 300).map(each => [...each])}]);
    });
    const strokes = input.strokes.map(([phase, size]) => strokesOf(phase, size));
    const stripes = input.strokes.map(([phase, size]) => stripeOf(size));
    console.log(JSON.stringify({moments, strokes, stripes}));
    """
    )
    instants = [0.0, 0.3, 10.0, 31.7, 45.0, 45.02, 60.0]
    longest = [[each.longest_line(lane) for lane in range(len(each.lanes))] for each in whole.scenes]
    strokes = [(phase, size) for phase in (*LABELS, WAITING) for size in (3, 6, 12, 17, 30)]
    document = json.loads(data[1]) | {"width": 640, "slide": 0.8, "instants": instants, "longest": longest}
    document["strokes"] = strokes
    done = subprocess.run(
        [str(NODE), "-e", script], input=json.dumps(document), capture_output=True, text=True, timeout=30, check=True
    )
    answer = json.loads(done.stdout)
    assert answer["stripes"] == [list(stripe_of(size)) for _, size in strokes]
    for lines, (phase, size) in zip(answer["strokes"], strokes, strict=True):
        assert np.array(sorted(lines)) == pytest.approx(np.array(sorted(strokes_of(phase, size))))
    compared = 0
    for one, (*moments, depth) in zip(whole.scenes, answer["moments"], strict=True):
        layout = layout_of(one, 640)
        moved = 44 - 6  # the page has the head of a scene outside its canvas
        for now, moment in zip(instants, moments, strict=True):
            squares = [each for lane in range(len(one.lanes)) for each in squares_of(one, layout, lane, now, 0.8)]
            values = {each.index: (each.x, each.y - moved, each.kind, each.opacity) for each in squares}
            there = {index: (x, y, kind, opacity) for index, x, y, kind, opacity, *_ in moment["drawn"]}
            in_boxes = {each[0]: each[5] for each in moment["drawn"] if len(each) > 5}
            assert in_boxes.items() <= {each.index: each.phase for each in squares}.items()
            assert there.keys() == values.keys()
            for index, (x, y, kind, opacity) in there.items():
                assert (x, y, opacity) == pytest.approx((*values[index][:2], values[index][3]), abs=0.01)
                assert kind == values[index][2]
            compared += len(values)
            counts = counts_of(one, now)
            assert moment["counts"] == {
                "waiting": counts.waiting, "gone": counts.gone, "ended": list(counts.ended),
                "held": {phase: counts.held[phase] for phase in one.held(0.0, whole.seconds)},
            }  # fmt: skip
            for lane, shares in enumerate(moment["busy"]):
                assert shares == pytest.approx(busy_shares(one, lane, now, 0.8).tolist(), abs=1e-4)
        lines = [deepest(steps, whole.seconds, 300).tolist() for steps in (one.in_line(), one.waiting())]
        assert depth["deepest"] == lines
    assert compared > 100


# Files


def pixels(image: Image.Image, colour: str) -> int:
    """How many pixels have this colour exactly."""
    return int((np.asarray(image.convert("RGB")) == rgb(colour)).all(axis=2).sum())


def test_a_gif_has_its_frames_its_colours_and_its_length(tmp_path: Path) -> None:
    path = tmp_path / "three.gif"
    write_film(film(), path, seconds=3.0, fps=5.0, width=400)
    assert path.stat().st_size < 60_000
    with Image.open(path) as image:
        assert (image.n_frames, image.info["loop"], image.size[0]) == (16, 0, 400)
        durations, frames = [], []
        for number in range(image.n_frames):
            image.seek(number)
            durations.append(image.info["duration"])
            frames.append(image.convert("RGB"))
    assert durations == [200] * 15 + [LAST_FRAME * 1_000]
    assert all(ImageChops.difference(a, b).getbbox() for a, b in pairwise(frames))
    # 30 s: two wait, one is in service. 72 s: none waits, a worker serves an abandoned request.
    lane = (0, 80, 400, 128)
    early, late = frames[5].crop(lane), frames[12].crop(lane)
    assert pixels(early, QUEUEING) > 500 < pixels(early, BLUE)
    assert pixels(early, OTHER) == 0 == pixels(late, QUEUEING)
    assert pixels(late, OTHER) > 200
    assert frames[0].getpixel((0, 0)) == (255, 255, 255)


def test_rejects_gif_that_exceeds_the_memory_limit(tmp_path: Path) -> None:
    eight = film(*(scene(name=f"{n}", later=1_000.0 * n) for n in range(8)))
    with pytest.raises(SojournError, match=r"^551 frames of 1000 × \d+ pixels"):
        write_film(eight, tmp_path / "x.gif", seconds=11.0, fps=50.0, width=1_000)


def test_frame_colours_are_in_the_palette() -> None:
    for theme in (LIGHT, DARK):
        colours = colours_of(theme)
        assert len(colours) <= 256
        image = frame_of(sheet_of(film(), 800, theme), 30.0, 0.0)
        assert image.getpixel((1, 1)) == rgb(theme.paper)
        assert {rgb(each) for each in (theme.paper, theme.panel, QUEUEING, BLUE, OTHER)} <= set(colours)
        frequent = {colour for count, colour in image.getcolors(100_000) or [] if count > 300}
        assert frequent <= set(colours)


def test_lines_show_the_phase_of_a_square() -> None:
    stroke = mixed(BLUE, STROKE, 0.5)
    for theme in (LIGHT, DARK):
        sheet = sheet_of(film(scene(phased())), 800, theme)
        image = frame_of(sheet, 12.0, 0.0).crop((0, 0, 800, sheet.height - 60))
        counts = {colour: count for count, colour in image.getcolors(100_000) or []}
        assert counts[stroke] > 50
        assert {stroke, mixed(OTHER, STROKE, 0.5)} <= set(colours_of(theme, strokes=True))
        assert len(colours_of(theme, strokes=True)) <= 256
        plain = frame_of(sheet_of(film(), 800, theme), 30.0, 0.0)
        assert stroke not in {colour for _, colour in plain.getcolors(100_000) or []}


def by_route() -> pl.DataFrame:
    """Two workers: /export holds one for 60 s, /a and /b for 10 s and 5 s; the last is given up unserved."""
    table = drawn(
        (0.0, 0.0, 60.0, 60.0, SERVED), (1.0, 1.0, 11.0, 11.0, SERVED), (2.0, 11.0, 16.0, 16.0, SERVED),
        (3.0, None, None, 50.0, GIVEN_UP),
    )  # fmt: skip
    return table.with_columns(route=pl.Series(["/export", "/a", "/b", "/c"]))


def test_the_routes_that_hold_workers_the_longest_have_stripes(tmp_path: Path) -> None:
    routes = film(scene(by_route(), workers=2))
    assert routes.routes == ("/export", "/a", "/b", "/c")
    assert film(scene(by_route().with_columns(route=pl.lit("/only")))).routes == ()
    assert film().routes == ()
    for theme in (LIGHT, DARK):
        sheet = sheet_of(routes, 800, theme)
        in_row = [(stripe, words) for row in sheet.legend for _, _, stripe, words in row if stripe]
        assert in_row == list(zip(ROUTE_COLOURS, routes.routes, strict=True))
        image = frame_of(sheet, 5.0, 0.0).crop((0, 0, 800, sheet.height - 60))
        counts = {colour: count for count, colour in image.getcolors(100_000) or []}
        yellow, sky, green = (counts.get(rgb(colour), 0) for colour in ROUTE_COLOURS[:3])
        assert min(yellow, sky, green) > 20  # in two boxes, and in the queue
        assert {rgb(each) for each in ROUTE_COLOURS} <= set(colours_of(theme, routes=4))
        assert len(colours_of(theme, strokes=True, routes=4)) <= 256
    page = page_of(routes)
    assert '"route": [0, 1, 2, 3]' in page.replace('"route":[', '"route": [').replace(",", ", ").replace(",  ", ", ")
    assert page.count('<i class="route"') == 4
    assert "/export, which holds workers the longest" in page
    assert "/a, which" not in page
    assert '<i class="route"' not in page_of(film())
    write_film(routes, tmp_path / "x.gif", seconds=1.0, fps=5.0, width=400)
    with Image.open(tmp_path / "x.gif") as image:
        image.seek(1)
        assert rgb(ROUTE_COLOURS[0]) in {colour for _, colour in image.convert("RGB").getcolors(100_000) or []}


def test_workers_spend_no_time_on_requests_that_never_had_one() -> None:
    assert "Workers spent" not in film(scene(by_route(), workers=2)).scenes[0].reading(0.0, 60.0)
    assert "Workers spent 25.0 s" in film().scenes[0].reading(0.0, 70.0)


def test_legend_has_the_phases_that_occur_in_rows_that_fit() -> None:
    plain, every = (sheet_of(each, 800, LIGHT).legend for each in (film(), film(scene(phased()))))
    assert [phase for row in plain for _, phase, _, _ in row] == [SERVICE] * 3
    assert [(kind, phase) for row in every for kind, phase, _, _ in row if kind != WAITING] == [
        (WORKING, SERVICE), (WORKING, READ), (WORKING, BODY), (WORKING, AFTER), (ABANDONED, SERVICE),
        (UNKNOWN, SERVICE),
    ]  # fmt: skip
    assert [len(row) for row in every] == [5, 2]
    page, with_phases = page_of(film()), page_of(film(scene(phased())))
    for phase in (READ, BODY, AFTER):
        assert f'<i class="{phase}">' not in page
        assert f'<i class="{phase}">' in with_phases
    assert '"headers"' not in page
    assert '"headers"' in with_phases


def test_scenes_are_side_by_side_where_they_fit() -> None:
    two = film(scene(), scene(name="again"))
    wide, narrow = sheet_of(two, 800, LIGHT), sheet_of(two, 400, LIGHT)
    assert wide.places[0][1] == wide.places[1][1]
    assert narrow.places[0][1] < narrow.places[1][1]
    assert narrow.height > wide.height


def test_writes_one_instant_as_a_picture(tmp_path: Path) -> None:
    path = tmp_path / "at.png"
    write_film(film(), path, at=30.0, width=500, theme="dark")
    with Image.open(path) as image:
        assert image.size[0] == 500
        assert image.getpixel((1, 1)) == rgb(DARK.paper)
        assert pixels(image, QUEUEING) > 1_000
    with pytest.raises(SojournError, match=r"91 s is outside the film, which lasts 90 s"):
        write_film(film(), path, at=91.0)


def test_hostile_names_are_escaped(tmp_path: Path) -> None:
    hostile = film(scene(THREE.with_columns(backend=pl.lit(HOSTILE)), HOSTILE), title=HOSTILE)
    page = page_of(hostile)
    assert page.count("</script>") == 2
    assert "<b>" not in page
    assert "\x1b" not in page
    data = re.search(r'id="data">(.*?)</script>', page, re.S)
    assert data is not None
    assert json.loads(data[1])["scenes"][0]["lanes"][0]["name"].startswith("</script><b>")
    write_film(hostile, tmp_path / "h.gif", seconds=0.5, width=320)


def test_page_needs_no_network_and_offers_the_requested_speed() -> None:
    page = page_of(film(), speed=7.0, theme="dark")
    assert not re.search(r"(?:src|href)=|https?://(?!www\.w3\.org)", page)
    assert '<option value="x 7" selected>× 7</option>' in page
    assert '<html lang="en" data-theme="dark">' in page
    assert page_of(film(), seconds=12).count(" selected>") == 1
    with pytest.raises(SojournError, match="'blue'"):
        page_of(film(), theme="blue")


# The command


def run(*arguments: str | Path) -> tuple[int, str]:
    done = CliRunner(env={"COLUMNS": "120", "NO_COLOR": "1"}).invoke(app, ["movie", *map(str, arguments)])
    error = f"{done.exception}" if isinstance(done.exception, SojournError) else done.stderr
    return done.exit_code, done.stdout + error


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return log_of(tmp_path / "access.jsonl", (0, 0.0, 3.0, 9), (1, 2.0, 2.0, 9), (2, 3.0, 9.0, 9))


def test_scenes_of_the_six_documented_requests(tmp_path: Path) -> None:
    out = tmp_path / "six.gif"
    code, printed = run(
        *SIX, "--by", "service", "--scene", "fifo", "--scene", "lifo", "--seconds", "1", "--width", "700", "--json",
        "--out", out,
    )  # fmt: skip
    assert code == 0, printed
    document = json.loads(printed)
    assert [(each["name"], each["served"], each["given_up"]) for each in document["scenes"]] == [
        ("fifo", 1, 5),
        ("lifo", 5, 1),
    ]
    # Spans end 2 ms after some answers: too short to be seen.
    assert [[*each["held_seconds"]] for each in document["scenes"]] == [[SERVICE], [SERVICE]]
    assert document["window"] is None
    assert 76 < document["seconds"] < 78
    with Image.open(out) as image:
        assert image.n_frames == 13


def test_run_folder_has_a_scene_for_each_case(tmp_path: Path) -> None:
    cases = (("b", 0), ("a", 100))
    lines = [log_of(tmp_path / name, (at, 0.0, 1.0, 9), service=name).read_text() for name, at in cases]
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "access.jsonl").write_text("".join(lines))
    code, printed = run(tmp_path / "run", "--out", tmp_path / "x.html")
    assert code == 0, printed
    assert re.findall(r"^[ab](?= +1 )", printed, re.M) == ["b", "a"]


def test_value_with_only_upgraded_connections_has_no_scene(tmp_path: Path, log: Path) -> None:
    upgraded = log_of(tmp_path / "ws.jsonl", (0, 0.0, 5.0, 9), (1, 0.0, 5.0, 9), service="ws").read_text()
    log.write_text(log.read_text() + upgraded.replace('"status": "200"', '"status": "101"'))
    code, printed = run(log, "--by", "service", "--json", "--out", tmp_path / "x.html")
    assert code == 0, printed
    assert [each["name"] for each in json.loads(printed)["scenes"]] == ["s"]


def test_each_makes_a_scene_per_source(tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = log_of(tmp_path / "after.jsonl", (10_000, 0.0, 1.0, 9))
    code, printed = run(log, other, "--each", "--json", "--out", tmp_path / "x.html")
    assert code == 0, printed
    document = json.loads(printed)
    assert [(each["name"], each["requests"]) for each in document["scenes"]] == [
        ("access.jsonl", 3),
        ("after.jsonl", 1),
    ]
    assert document["window"] is None
    (tmp_path / "after").mkdir()
    other.rename(tmp_path / "after" / "access.jsonl")
    monkeypatch.chdir(tmp_path)
    code, printed = run("access.jsonl", "after/access.jsonl", "--each", "--json", "--out", tmp_path / "x.html")
    assert [each["name"] for each in json.loads(printed)["scenes"]] == ["access.jsonl", "after/access.jsonl"]


def test_requests_from_before_the_window_are_still_queued(
    tmp_path: Path, log: Path, snapshot: SnapshotAssertion
) -> None:
    code, printed = run(log, "--since", "2026-01-01T12:00:02.5Z", "--json", "--out", tmp_path / "x.html")
    assert code == 0, printed
    document = json.loads(printed)
    assert document["scenes"][0]["requests"] == 3
    assert document["window"]["from"] == "2026-01-01T12:00:02.500Z"
    assert document["notes"] == snapshot


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["--out", "x.mp4"], 1, "x.mp4"),
        (["--out", "x.html", "--since", "2027-01-01T00:00Z"], 1, "none arrived in the window"),
        (["--out", "x.html", "--backend", "b:1"], 1, "--backend named b:1"),
        (["--out", "x.html", "--by", "service", "--scene", "z"], 1, "there is no scene 'z'; choose from s"),
        (["--out", "x.html", "--seconds", "5", "--speed", "2"], 2, "either --seconds or --speed"),
        (["--out", "x.gif", "--at", "1"], 2, ".png"),
        (["--out", "x.gif", "--seconds", "600"], 1, f"more than the {MOST_FRAMES} of a GIF"),
        (["--out", "x.gif", "--theme", "blue"], 1, "'blue'"),
        (["--out", "x.png", "--at", "99"], 1, "outside the film"),
        (["--out", "no/such/folder/x.html"], 1, "cannot be written"),
        ([], 2, "--out"),
    ],
)
def test_rejects_impossible_options(
    log: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    snapshot: SnapshotAssertion,
    arguments: list[str],
    code: int,
    part: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    result, printed = run(log, *arguments)
    assert result == code
    message = re.sub(r"\s+│?\s*", " ", printed)
    assert part in message
    assert message == snapshot
    assert [each.name for each in tmp_path.iterdir()] == ["access.jsonl"]


def test_rejects_log_without_a_queue(tmp_path: Path) -> None:
    path = tmp_path / "static.jsonl"
    path.write_text(
        json.dumps({"time": "1767312000.000", "request_time": "0.001", "status": "200", "request_start": "-"}) + "\n"
    )
    code, printed = run(path, "--out", tmp_path / "x.html")
    assert (code, "no queue to draw" in printed) == (1, True)


def test_from_python(tmp_path: Path, log: Path) -> None:
    result = sojourn.split(log, columns=("request_id",))
    produced = sojourn.write_movie(result, tmp_path / "x.html", by="route", workers=2)
    assert produced.scenes[0].name == "/r"
    assert produced.scenes[0].lanes[0].workers == 2
    assert len(sojourn.write_movie({"one": result, "two": result}, tmp_path / "y.html").scenes) == 2
    with pytest.raises(SojournError, match="column 'tenant' was not read"):
        sojourn.write_movie(result, tmp_path / "z.html", by="tenant")

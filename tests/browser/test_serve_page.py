"""``sojourn serve`` in a real browser: brushed, filtered, clicked and changed, with the figures of the commands."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
import sojourn
from axe_playwright_python.sync_playwright import Axe
from browser_support import eventually
from page_support import IDLE, comparison_of, drag, open_lanes, opened_page, requests_of, state_of
from playwright.sync_api import Browser, Page
from served import Served, served

EXAMPLES = Path(__file__).parents[2] / "docs/examples"
SHOP, SPANS = str(EXAMPLES / "shop.jsonl.gz"), str(EXAMPLES / "shop-spans.jsonl.gz")
FIRST = 1_767_225_600_000_000  # unix time, us
SECOND = 1_000_000


@pytest.fixture(scope="module")
def shop() -> Iterator[Served]:
    with served(SHOP, "--spans", SPANS, "--quiet") as page:
        yield page


@pytest.fixture
def page(browser: Browser, shop: Served) -> Iterator[Page]:
    with opened_page(browser, shop.address) as page:
        yield page


def _pressed(page: Page, key: str) -> None:
    page.focus("#plots")
    page.keyboard.press(key)
    eventually(page, IDLE)


def test_token_leaves_the_address_and_a_reload_keeps_the_view(page: Page, shop: Served) -> None:
    assert shop.token not in page.url
    assert "token" not in page.url
    assert requests_of(page) == 3087
    page.reload()
    eventually(page, IDLE)
    assert requests_of(page) == 3087


def test_page_without_the_token_says_how_to_open_it(browser: Browser, shop: Served) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(shop.address.partition("?")[0])
    eventually(page, "!document.getElementById('problem').hidden")
    assert "token" in page.inner_text("#problem")
    assert page.inner_text("#figures") == ""
    context.close()


def test_charts_draw_marks_and_the_incident(page: Page) -> None:
    for chart in ("heat", "composition", "queue"):
        marks = page.evaluate(
            "(id) => { const canvas = document.querySelector(`#${id} canvas`); const image = canvas.getContext('2d')"
            ".getImageData(0, 0, canvas.width, canvas.height).data; const colours = new Set();"
            " for (let i = 0; i < image.length; i += 4) colours.add(image.slice(i, i + 4).join());"
            " return colours.size; }",
            chart,
        )
        assert marks > 4, chart
    assert page.locator(".cover .band").count() == 3
    assert "incident" in page.inner_text("#notes").lower()


def test_dragging_over_a_chart_zooms_to_its_requests(page: Page) -> None:
    drag(page, "composition", 0.35, 0.55)
    state = {name: int(values[0]) for name, values in state_of(page).items()}
    first, last = (pl.from_epoch(pl.Series([state[name]]), "us")[0] for name in ("from", "to"))
    rows = sojourn.split(SHOP, spans=[SPANS]).rows.filter(
        pl.col("start").dt.replace_time_zone(None).is_between(first, last, closed="left")
    )
    expected = rows.select(pl.len(), pl.col("request_time").mean().alias("mean")).collect()
    assert 0 < requests_of(page) == expected["len"][0] < 3087
    page.click("#whole")
    eventually(page, "!location.href.includes('from=')")
    eventually(page, IDLE)
    assert requests_of(page) == 3087


def test_chips_filter_the_requests_and_are_in_the_address(page: Page) -> None:
    page.click("button.chip[title='/export']")
    eventually(page, f"location.hash.includes('where') && {IDLE}")
    expected = sojourn.split(SHOP, spans=[SPANS], where={"route": "/export"})
    assert requests_of(page) == expected.requests
    assert state_of(page)["where"] == ["route=/export"]
    chip = page.locator("button.chip[title='/export']")
    assert chip.get_attribute("aria-pressed") == "true"
    command = page.text_content("#command")
    assert command is not None
    assert "--where route=/export" in command
    page.go_back()
    eventually(page, f"!location.hash.includes('where') && {IDLE}")
    assert requests_of(page) == 3087


@pytest.mark.thorough
def test_address_with_a_state_opens_that_view(browser: Browser, shop: Served) -> None:
    fragment = f"#from={FIRST + 60 * SECOND}&to={FIRST + 90 * SECOND}&where=route%3D%2Fsearch"
    with opened_page(browser, shop.address, fragment) as page:
        window = {"from": FIRST + 60 * SECOND, "to": FIRST + 90 * SECOND}
        figures = shop.get("figures", **window, where="route=/search")
        assert requests_of(page) == figures.json()["requests"]


@pytest.mark.thorough
def test_keys_zoom_move_and_reset(page: Page) -> None:
    _pressed(page, "+")
    state = {name: int(values[0]) for name, values in state_of(page).items()}
    length = state["to"] - state["from"]
    _pressed(page, "ArrowRight")
    moved = {name: int(values[0]) for name, values in state_of(page).items()}
    assert moved["from"] - state["from"] == pytest.approx(length / 4, rel=0.01)
    _pressed(page, "-")
    _pressed(page, "0")
    assert "from" not in state_of(page)


@pytest.mark.thorough
def test_window_is_entered_as_text(page: Page) -> None:
    page.fill("#area-from", "2026-01-01T00:01:00Z")
    page.fill("#area-to", "2026-01-01T00:01:10.5Z")
    page.click("#area button[type=submit]")
    eventually(page, f"location.hash.includes('from=') && {IDLE}")
    assert state_of(page) == {"from": [str(FIRST + 60 * SECOND)], "to": [str(FIRST + 70 * SECOND + SECOND // 2)]}
    page.fill("#area-from", "yesterday")
    page.click("#area button[type=submit]")
    assert "instant" in page.inner_text("#problem")


def test_replay_shows_the_figures_of_the_command(page: Page) -> None:
    page.click("#replay-panel > summary")
    eventually(page, "document.getElementById('replay').dataset.busy === 'false'")
    page.locator("#replay-workers").fill("1")
    eventually(page, "document.getElementById('replay-command').textContent.includes('workers=+1')")
    expected = sojourn.whatif(SHOP, {"workers": "+1"}, spans=[SPANS])
    (variant,) = expected.variants
    sentence = page.inner_text("#replay-sentence")
    assert f"{variant.response_time['p99'] * 1000:,.0f} ms" in sentence
    table = page.inner_text("#replay-figures")
    assert "measured" in table
    assert "workers=+1" in table
    eventually(page, "document.getElementById('replay-plot').dataset.drawn !== undefined")


def test_cloud_is_compared_with_the_rest_as_by_the_command(page: Page) -> None:
    drag(page, "heat", 0.38, 0.52, 0.0, 0.2)
    text = comparison_of(page)
    state = {name: float(values[0]) for name, values in state_of(page).items()}
    result = sojourn.contrast(
        SHOP, spans=[SPANS], column="tenant", begin=state["begin"] / 1e6, end=state["end"] / 1e6, above=state["low"],
        below=state["high"],
    )  # fmt: skip
    assert f"{result.selected.requests} requests" in text
    top = result.culprits.row(0, named=True)
    assert (top["column"], top["value"]) == ("route", "/export")
    assert "route /export" in text
    assert f"{round(top['share'] * 100)} %" in text
    command = page.inner_text("#comparison-command")
    assert command.startswith("sojourn contrast ")
    assert f"--above {state['low']:g}" in command
    page.click("#comparison button[aria-label='Filter by route /export'] >> nth=0")
    eventually(page, f"location.hash.includes('where') && {IDLE}")
    assert state_of(page)["where"] == ["route=/export"]


def test_request_in_a_lane_shows_what_it_waited_for(browser: Browser, shop: Served) -> None:
    with opened_page(browser, shop.address, f"#from={FIRST + 65 * SECOND}&to={FIRST + 72 * SECOND}") as page:
        open_lanes(page)
        page.focus("#lanes")
        for _ in range(30):
            page.keyboard.press("n")
        eventually(page, "!document.getElementById('request').hidden")
        number = int(page.get_attribute("#request", "data-number") or "")
        lanes = shop.get("lanes", **{"from": FIRST + 65 * SECOND, "to": FIRST + 72 * SECOND}).json()
        eventually(page, f"document.getElementById('request').dataset.number === '{lanes['requests']['number'][29]}'")
        number = lanes["requests"]["number"][29]
        request = shop.get("request", number=number).json()
        text = page.inner_text("#request")
        assert request["values"]["request_id"] in text
        for holder in request["holders"]:
            assert f"request {holder['number']}" in text
        before = int(page.get_attribute("#lanes", "data-drawn") or 0)
        page.locator("#request table button").first.click()
        eventually(page, f"Number(document.getElementById('lanes').dataset.drawn) > {before}")
        assert int(page.get_attribute("#request", "data-number") or "") == request["holders"][0]["number"]


@pytest.mark.thorough
def test_pictures_and_requests_are_saved(page: Page) -> None:
    for chart in ("heat", "composition", "queue"):
        page.hover(f"#{chart}")
        with page.expect_download() as saved:
            page.click(f"[data-save=svg][data-of={chart}]")
        text = Path(saved.value.path()).read_text(encoding="utf-8")
        assert text.startswith("<svg")
        assert text.count("<path") > 20
        with page.expect_download() as saved:
            page.click(f"[data-save=png][data-of={chart}]")
        assert Path(saved.value.path()).read_bytes().startswith(b"\x89PNG")
    page.click("button.chip[title='/export']")
    eventually(page, f"location.hash.includes('where') && {IDLE}")
    with page.expect_download() as saved:
        page.click("#save-requests")
    rows = pl.read_parquet(io.BytesIO(Path(saved.value.path()).read_bytes()))
    assert len(rows) == requests_of(page)
    assert rows["route"].unique().to_list() == ["/export"]


@pytest.mark.parametrize(
    ("scheme", "width"),
    [
        ("dark", 360),
        pytest.param("light", 1200, marks=pytest.mark.thorough),
        pytest.param("dark", 1200, marks=pytest.mark.thorough),
        pytest.param("light", 360, marks=pytest.mark.thorough),
    ],
)
def test_page_is_accessible(browser: Browser, shop: Served, scheme: str, width: int) -> None:
    window = f"#from={FIRST + 65 * SECOND}&to={FIRST + 72 * SECOND}"
    fragment = f"{window}&begin={FIRST + 66 * SECOND}&end={FIRST + 70 * SECOND}&low=1&high=5"
    with opened_page(browser, shop.address, fragment, color_scheme=scheme, bypass_csp=True) as page:
        page.set_viewport_size({"width": width, "height": 800})
        for panel in page.locator("details > summary").all():
            panel.click()
        eventually(page, "document.getElementById('replay').dataset.busy === 'false'")
        eventually(page, "document.getElementById('lanes').dataset.busy === 'false'")
        page.focus("#lanes")
        page.keyboard.press("n")
        eventually(page, "!document.getElementById('request').hidden")
        eventually(page, IDLE)
        result = Axe().run(page)
        violations = result.response["violations"]
        assert [(each["id"], [node["html"][:200] for node in each["nodes"][:3]]) for each in violations] == []
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_texts_of_a_log_are_inert(browser: Browser, tmp_path: Path) -> None:
    hostile = [
        "<img src=x onerror=alert(1)>",
        "</script><script>alert(2)</script>",
        "\u202e\u0000<b>",
        "'\"--><svg onload=alert(3)>",
        "x" * 5_000,
    ]
    lines = []
    for number in range(60):
        ended = FIRST / 1e6 + number * 0.05
        text = hostile[number % len(hostile)]
        fields = {
            "time": f"{ended:.3f}", "request_id": f"{number:032x}", "service": text[:60], "route": text,
            "method": text[:20], "uri": text, "status": "200", "request_time": "0.200",
            "request_start": f"{ended - 0.2:.3f}", "proxy_start": f"{ended - 0.2:.3f}",
            "upstream_addr": "10.0.0.1:80", "upstream_status": "200", "upstream_connect_time": "0.000",
            "upstream_header_time": "0.200", "upstream_response_time": "0.200", "queueing_delay": "0.150000",
            "service_time": "0.050000", "worker": text[:30], "proxy": "edge", "stamp": "own",
        }  # fmt: skip
        lines.append(json.dumps(fields))
    log = tmp_path / "<img src=x onerror=alert(4)>.jsonl"
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with served(str(log), "--quiet") as page_of_log, opened_page(browser, page_of_log.address) as page:
        page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        for panel in page.locator("details > summary").all():
            panel.click()
        eventually(page, "document.getElementById('lanes').dataset.busy === 'false'")
        page.focus("#lanes")
        page.keyboard.press("n")
        eventually(page, "!document.getElementById('request').hidden")
        page.locator("button.chip").nth(2).click()
        eventually(page, IDLE)
        assert page.locator("img, svg[onload], b:not(.chip b):not(#figures b)").count() == 0
        assert page.locator("script").count() == 2
